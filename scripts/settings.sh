# Read by the other scripts (`source`): where things are, how they speak, what the compiler's cache and mpirun are told.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 4; }

# The cache is shared between checkouts: paths below the checkout are hashed relative to it.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=2G

# Ranks of one machine: in a container as root, with more ranks than cores; Open MPI 4, then 5.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

# configure PRESET: once; afterwards the build notices by itself what changed.
configure() {
  [ -f "$root/build/$1/build.ninja" ] && return
  say "Configuring build/$1"
  (cd "$root" && cmake --preset "$1" --log-level=WARNING) || fail "cmake could not configure build/$1; its message stands above"
}

# build PRESET TARGET
build() {
  say "Building build/$1 ($2)"
  cmake --build "$root/build/$1" --target "$2" || fail "the build failed; the compiler's message stands above"
}
