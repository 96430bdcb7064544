#!/usr/bin/env bash
# Shows that the release in the folder $1 installs and works. Run by `make release-test`. What needs a program that is
# not here (qemu-aarch64-static, cmake, torch) is skipped and named. RELEASE_TORCH is a folder with torch, for the test
# of its entry point. GOCCL_FULL=1 compares with a second build that shares no compiler's cache.
set -euo pipefail # so no grep -q behind a program: it ends at the first match, and the program by SIGPIPE
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(cd "${1:?the folder of the release}" && pwd)
data=$PWD/tools/release/testdata
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' python/pyproject.toml)
passed=0
skipped=0
say() { printf 'ok    %s\n' "$*" && passed=$((passed + 1)); }
skip() { printf 'skip  %s\n' "$*" && skipped=$((skipped + 1)); }
die() { printf 'FAIL  %s\n' "$*" >&2 && exit 1; }

(cd "$out" && sha256sum --quiet -c SHA256SUMS)
say "sums"
for arch in x86_64 aarch64; do
  tar -C "$work" -xf "$out/goccl-$version-linux-$arch.tar.gz"
done
tree=$work/goccl-$version-linux-x86_64
arm=$work/goccl-$version-linux-aarch64

# Sizes, and the oldest glibc.
most() {
  size=$(stat -c %s "$2")
  [ "$size" -le $(($1 * 1000000)) ] || die "$2 has $size bytes, more than $1 MB"
}
for arch in x86_64 aarch64; do
  most 25 "$work/goccl-$version-linux-$arch/lib/libgoccl.so"
  most 15 "$out/goccl-$version-py3-none-manylinux_2_28_$arch.whl"
  most 20 "$out/goccl_tool-$version-py3-none-manylinux_2_28_$arch.whl"
  for file in "$work/goccl-$version-linux-$arch"/{bin/goccl,lib/*.so*}; do
    newest=$(readelf -W --dyn-syms "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
    printf 'GLIBC_2.28\n%s\n' "$newest" | sort -V | tail -1 | grep -x GLIBC_2.28 >/dev/null || die "$file needs $newest"
  done
done
say "sizes and symbols of glibc"

# The wheels, where nothing else of goccl is.
python3 -m venv "$work/venv"
python=$work/venv/bin/python
"$python" -m pip install -q --disable-pip-version-check "$out/goccl-$version-py3-none-manylinux_2_28_x86_64.whl"
cd "$work"
GOCCL_DEVICE=host "$python" -c 'from goccl import nccl; nccl.Communicator.init_all(1)'
"$work/venv/bin/goccl" version 2>"$work/said" && die "the program is there without goccl-tool"
grep -q 'pip install goccl-tool' "$work/said" || die "without goccl-tool: $(cat "$work/said")"
"$python" -m pip install -q --disable-pip-version-check "$out/goccl_tool-$version-py3-none-manylinux_2_28_x86_64.whl"
"$work/venv/bin/goccl" version | grep '^goccl ' >/dev/null || die "goccl version"
GOCCL_DEVICE=host "$work/venv/bin/goccl" perf all_reduce --ranks 2 -b 1K -e 1K >/dev/null
say "wheels in a fresh virtual environment"

if [ -n "${RELEASE_TORCH-}" ]; then
  "$python" -m pip install -q --disable-pip-version-check 'typing-extensions>=4.13' sympy networkx filelock jinja2 \
    fsspec
  echo "$RELEASE_TORCH" >"$("$python" -c 'import site; print(site.getsitepackages()[0])')/torch-of-test.pth"
fi
if "$python" -c 'import torch.distributed.distributed_c10d as c
exit(not hasattr(c.Backend, "_ensure_backend_registered"))' 2>/dev/null; then
  # PyTorch loads backends when it is imported too (torch.backends): without that, only the name brings this one.
  TORCH_DEVICE_BACKEND_AUTOLOAD=0 GOCCL_DEVICE=host "$python" "$data/group.py" "$work/store"
  say "PyTorch by the entry point torch.distributed.backends"
else
  skip "PyTorch by entry point: no torch 2.15 (RELEASE_TORCH names a folder with one)"
fi

# The archive, moved, by pkg-config and by CMake.
mv "$tree" "$work/moved" && tree=$work/moved
flags=$(PKG_CONFIG_PATH=$tree/share/pkgconfig pkg-config --cflags --libs goccl-nccl goccl)
g++ -std=c++17 -o "$work/sum" "$data/sum.cpp" $flags
GOCCL_DEVICE=host "$work/sum"
say "C++ by pkg-config"
if command -v cmake >/dev/null; then
  cmake -S "$data" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$tree" >/dev/null
  cmake --build "$work/cmake" >/dev/null
  GOCCL_DEVICE=host "$work/cmake/sum"
  say "C++ by CMake"
else
  skip "CMake is not installed"
fi
"$out/goccl-$version-linux-x86_64-static" version | grep 'without cgo' >/dev/null || die "the static program"
! readelf -lW "$out/goccl-$version-linux-x86_64-static" | grep INTERP >/dev/null ||
  die "the static program asks for a loader"
say "static program"

# Packages of Debian.
for arch in amd64 arm64; do
  deb=$out/goccl_${version}_$arch.deb
  [ "$(dpkg-deb -f "$deb" Architecture Version)" = "Architecture: $arch
Version: $version" ] || die "$deb: $(dpkg-deb -f "$deb")"
  ! dpkg-deb -c "$deb" | grep -E ' \./usr/lib/' || die "$deb has libraries where NVIDIA's would be hidden"
done
dpkg-deb -x "$out/goccl_${version}_amd64.deb" "$work/deb"
"$work/deb/opt/goccl/bin/goccl" version >/dev/null
PKG_CONFIG_PATH=$work/deb/usr/share/pkgconfig pkg-config --libs goccl | grep -- '-L/opt/goccl/' >/dev/null ||
  die "goccl.pc"
say "packages of Debian"

# aarch64, on the host device alone.
if command -v qemu-aarch64-static >/dev/null && [ -d /usr/aarch64-linux-gnu ]; then
  export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
  qemu-aarch64-static "$arm/bin/goccl" version | grep linux/arm64 >/dev/null || die "goccl on aarch64"
  GOCCL_DEVICE=host qemu-aarch64-static "$arm/bin/goccl" perf all_reduce --ranks 2 -b 1K -e 1K >/dev/null
  say "aarch64 under QEMU"
else
  skip "aarch64: no qemu-aarch64-static, or no /usr/aarch64-linux-gnu (qemu-user-static, libc6-arm64-cross)"
fi

# A job of two tasks by the Slurm script, with a stand-in of srun.
cd "$data/../../.."
mkdir "$work/bin"
cat >"$work/bin/srun" <<'SRUN'
#!/usr/bin/env bash
while [[ ${1-} = -* ]]; do shift; done
for r in 0 1; do
  SLURM_PROCID=$r SLURM_NTASKS=2 SLURM_LOCALID=$r SLURM_NODEID=0 SLURM_STEP_ID=0 SLURM_JOB_ID=17 "$@" &
  pids+=($!)
done
for p in "${pids[@]}"; do wait "$p" || exit 1; done
SRUN
printf '#!/bin/sh\necho 127.0.0.1\n' >"$work/bin/scontrol"
chmod +x "$work"/bin/*
PATH=$work/bin:$tree/bin:$PATH SLURM_JOB_ID=17 SLURM_JOB_NODELIST=here GOCCL_DEVICE=host \
  bash examples/cluster/slurm.sh goccl perf all_reduce -b 1K -e 1K >/dev/null
say "the Slurm script, with a stand-in of srun"

(cd tools/release && GOWORK=off go run ./manifests ../../examples/cluster/*.yaml)
say "manifests of Kubernetes"

# The same bytes again.
if [ -n "${GOCCL_FULL-}" ]; then
  GOCACHE=$work/cache && export GOCACHE
fi
tools/release/release.sh "$work/again" >/dev/null
diff "$out/SHA256SUMS" "$work/again/SHA256SUMS" || die "a second build differs"
say "a second build is the same bytes"
echo "$passed passed, 0 failed, $skipped skipped"
