#!/usr/bin/env bash
# Builds the programs with kernels of this folder with nvcc, by the line of their tutorials' Makefile, and runs them on
# two GPUs:
#
#   run_all.sh BUILD [FOLDER...]
#
# BUILD has include/ and the libraries (the build folder of a checkout after `make libmscclpp`). FOLDERs, or the words
# of $MSCCLPP_TUTORIALS, are searched for further .cu files, such as MSCCL++'s tutorials, which are built and run
# without arguments.
set -uo pipefail
build=$(cd "${1:?the build folder}" && pwd)
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || nvcc=$(command -v nvcc) || { echo "no nvcc: set CUDA_HOME" >&2; exit 1; }
export CPATH=$build/include LIBRARY_PATH=$build:${LIBRARY_PATH-} LD_LIBRARY_PATH=$build:${LD_LIBRARY_PATH-}
# No multicast, by anyone.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sources=("$here"/*.cu)
for folder in "$@" ${MSCCLPP_TUTORIALS-}; do
  while IFS= read -r f; do sources+=("$f"); done < <(find "$folder" -name '*.cu' | sort)
done
bad=0
for source in "${sources[@]}"; do
  name=$(basename "$source" .cu)
  echo "== $source"
  if ! "$nvcc" -arch=native -o "$work/$name" "$source" -lmscclpp; then
    echo "$name: does not compile"
    bad=1
  elif ! (cd "$work" && timeout 100 "./$name"); then
    echo "$name: failed"
    bad=1
  fi
done
"$here/../devapi/run.sh" "$build" || bad=1 # kernels of NCCL's device API
exit $bad
