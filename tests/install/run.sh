#!/usr/bin/env bash
# run.sh BUILD_DIR CMAKE: installs the build into an empty prefix, runs the installed program there, and configures, builds and runs
# another project against the installed rooms.
set -euo pipefail
build=$1 cmake=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
# The flags of the build travel along: a library made with sanitizers can only be linked with them.
flags=$(sed -n 's/^CMAKE_CXX_FLAGS:[A-Z]*=//p' "$build/CMakeCache.txt")
"$cmake" -S "$here/consumer" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_FLAGS="$flags" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
"$cmake" --build "$work/consumer" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/consumer/consumer" || { echo "the program of the other project ended with status $?"; exit 1; }
if ldd "$work/consumer/consumer" | grep -E 'simgrid|protobuf|libmpi|dnnl'; then
  echo "the program of the other project needs a library that it should not"
  exit 1
fi

# The installed program finds the catalogue inside itself, and the simulator module beside it.
cd "$work"
said=$(prefix/bin/rehearse simulate 'zoo:resnet18?image=64' --batch 8 --platform xeon-2s-10gbe --devices 2 --plan dp=2 --format json) ||
  { echo "the installed rehearse ended with status $?"; exit 1; }
grep -q '"step_seconds"' <<<"$said" || { echo "the installed rehearse said: $said"; exit 1; }
echo "another project found, linked and ran the installed rooms"
