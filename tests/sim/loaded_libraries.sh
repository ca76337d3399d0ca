#!/bin/sh
# loaded_libraries.sh REHEARSE: commands that do not simulate never load SimGrid, and `simulate` does so in another process only.
set -eu
rehearse=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Processes that loaded SimGrid while a command ran: the dynamic linker writes one file a process.
loaders() {
  rm -f "$folder"/loaded.*
  LD_DEBUG=files LD_DEBUG_OUTPUT="$folder/loaded" "$rehearse" "$@" > "$folder/out" 2> "$folder/err" || { cat "$folder/err" >&2; echo "rehearse $* failed" >&2; exit 1; }
  grep -l libsimgrid "$folder"/loaded.* | wc -l
}

expect() {
  wanted=$1
  shift
  found=$(loaders "$@")
  [ "$found" -eq "$wanted" ] || { echo "rehearse $*: $found processes loaded SimGrid, not $wanted" >&2; exit 1; }
}

model='zoo:resnet18?image=32&classes=4'
expect 0 inspect "$model" --batch 2
expect 0 run "$model" --batch 2 --data synthetic --steps 1
expect 0 simulate "$model" --batch 64 --platform dgx-a100 --plan dp=8 --fidelity closed
expect 1 simulate "$model" --batch 64 --platform dgx-a100 --plan dp=8 --fidelity full
