#!/usr/bin/env bash
# Builds lsa.cu with nvcc and the headers of the NCCL that pip has installed (or of $PEER_NCCL), and runs it on two GPUs
# with goccl's library and with NCCL's:
#
#   run.sh BUILD       BUILD has libnccl.so.2 of goccl
set -uo pipefail
build=$(cd "${1:?the build folder}" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || nvcc=$(command -v nvcc) || { echo "no nvcc: set CUDA_HOME" >&2; exit 1; }
nccl=${PEER_NCCL:-$(python3 -c 'import importlib.util as u
s = u.find_spec("nvidia.nccl"); print(next(iter(s.submodule_search_locations)) if s else "")' 2>/dev/null)}
[ -e "$nccl/include/nccl_device.h" ] || { echo "no nccl_device.h in '$nccl/include': set PEER_NCCL" >&2; exit 0; }
# No multicast, by anyone.
export NCCL_NVLS_ENABLE=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$nvcc" -std=c++17 -O3 -arch=native -I"$nccl/include" -o "$work/lsa" "$here/lsa.cu" -L"$build" -l:libnccl.so.2 || exit 1
bad=0
for library in "$build" "$nccl/lib"; do
  echo "== lsa on $library"
  LD_LIBRARY_PATH=$library timeout 60 "$work/lsa" || bad=1
done
exit $bad
