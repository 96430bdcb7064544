#!/usr/bin/env bash
# Gathers in build/gpu/ what bench/gpu.sh needs on a GPU host without Go: one archive, and the script. Run by `make
# gpu-bundle`.
#
# The archive mirrors the repository, so that tests and scripts find their files where they are here:
#
#   bin/              goccl, the tutorials, the programs of bench/
#   <package>/        pkg.test (tests) and testdata
#   build/            libnccl.so.2, libgoccl.so, libmscclpp.so, libgoccl-profiler.so, goccl, include/: where the
#                     Python package looks in a checkout
#   python/, capi/testdata/torch/   the Python package and its GPU suite, PyTorch on libnccl.so.2
#   bench/            steps of gpu.sh, and their Python programs
#   capi/testdata/cpp/   programs in C++ with kernels, which are built there
#   docs/, kernels/, plan/, dsl/   texts and plans that tests of other packages read
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ldflags=${1:?the linker flags}
dest=build/gpu
limit=$((48 << 20))

# Packages whose tests have something to say about a GPU.
packages=(test/contract test/gpu test/faults test/hosts device/cuda internal/driver internal/driver/ncclabi
          kernels/jit primitive transport/ipc engine/nvlink plan/executor engine/hosts/cudawire test/moe test/verdict)

rm -rf "$dest" build/gpu.tree
mkdir -p "$dest" build/gpu.tree/{bin,build}
trap 'rm -rf build/gpu.tree' EXIT
tree=$PWD/build/gpu.tree
build=(-trimpath -ldflags "$ldflags")
export CGO_ENABLED=1

# 1. Programs.
go build "${build[@]}" -o "$tree/bin/" ./cmd/goccl ./examples/0* ./bench/primitives ./bench/communicator
cp -R build/libnccl.so.2 build/libgoccl.so build/libmscclpp.so build/libgoccl-profiler.so build/include "$tree/build/"
ln "$tree/bin/goccl" "$tree/build/goccl" # hard links, so that the archive holds one

# 2. Tests.
for p in "${packages[@]}"; do
  mkdir -p "$tree/$p"
  go test -c "${build[@]}" -o "$tree/$p/pkg.test" "./$p"
done
echo "${packages[*]}" >"$tree/packages"

# 3. Texts: what git knows of these places. No Go sources; kernels as they were compiled are in the programs.
places=(docs python ':(glob)bench/*.sh' bench/communicator bench/inference bench/moe bench/overlap
        bench/training bench/turns bench/watch capi/testdata/torch capi/testdata/cpp
        capi/testdata/devapi
        plan/testdata/foreign plan/dsl/testdata
        'kernels/*.cu' 'kernels/*.cuh' 'kernels/*.txt' kernels/include kernels/internal/hosttest/testdata)
for p in "${packages[@]}"; do places+=("$p/testdata"); done
git ls-files -z --cached --others --exclude-standard -- "${places[@]}" | grep -zv '\.go$' |
  xargs -0 -I{} sh -c '[ ! -e "$1" ] || cp --parents "$1" "$2"' - {} "$tree"

# 4. One archive. The programs repeat each other (kernels, runtime): a dictionary as long as all of them finds that.
# Preset 6 takes 15 minutes more for 3 MiB less.
tar -C "$tree" --sort=name --owner=0 --group=0 -c . | xz -T1 --lzma2=preset=2,dict=256MiB >"$dest/goccl-gpu.tar.xz"
cp bench/gpu.sh "$dest/"
size=$(du -sb "$dest" | cut -f1)
echo "$dest: $((size >> 20)) MiB"
if [ "$size" -gt "$limit" ]; then
  echo "the bundle is larger than $((limit >> 20)) MiB" >&2
  exit 1
fi
