#!/bin/sh
# Unpack the pinned CUDA compiler (NVRTC, no GPU and no toolkit needed) into .tools/nvrtc of the repository.
# Our kernels are built with the oldest release that knows every architecture we ship, because a driver refuses PTX newer than itself.
# $PYTHON needs pip; make tools gives that of .venv, because a system's Python often has none.
set -eu
python=${PYTHON:-python3}
version=12.8.93
dir=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)/.tools/nvrtc
lib=$dir/nvidia/cuda_nvrtc/lib/libnvrtc.so.12
if [ -e "$lib" ] && [ "$(cat "$dir/VERSION" 2>/dev/null)" = "$version" ]; then
	exit 0
fi
mkdir -p "$dir"
case $(uname -m) in
x86_64 | aarch64) ;;
*) echo "install-nvrtc: no NVRTC wheel for $(uname -m)" >&2; exit 1 ;;
esac
set -- "$dir"/nvidia_cuda_nvrtc_cu12-"$version"-*.whl
if [ ! -e "$1" ]; then
	"$python" -m pip --version >/dev/null 2>&1 || { echo "install-nvrtc: $python has no pip: run make tools, or set PYTHON to one that has" >&2; exit 1; }
	"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: -d "$dir" "nvidia-cuda-nvrtc-cu12==$version"
	set -- "$dir"/nvidia_cuda_nvrtc_cu12-"$version"-*.whl
fi
"$python" - "$1" "$dir" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    for name in z.namelist():
        # ".alt" is a second build of the compiler that nothing here uses.
        if ".alt." not in name:
            z.extract(name, sys.argv[2])
PY
rm -f "$dir"/*.whl
printf %s "$version" >"$dir/VERSION"
echo "nvrtc $version in $dir"
