#!/bin/sh
# Unpack the pinned CUDA compiler (NVRTC, no GPU and no toolkit needed) and CUDA's headers of its release into
# .tools/nvrtc of the repository. Our kernels are built with the oldest release that knows every architecture we ship,
# because a driver refuses PTX newer than itself; they need no header of CUDA's, but users' kernels may include them.
# $PYTHON needs pip; make tools passes the Python of .venv, because a system's Python often has none.
set -eu
python=${PYTHON:-python3}
packages="nvidia-cuda-nvrtc-cu12==12.8.93 nvidia-cuda-runtime-cu12==12.8.90"
dir=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)/.tools/nvrtc
if [ -e "$dir/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" ] && [ "$(cat "$dir/VERSION" 2>/dev/null)" = "$packages" ]; then
	exit 0
fi
case $(uname -m) in
x86_64 | aarch64) ;;
*) echo "install-nvrtc: no NVRTC wheel for $(uname -m)" >&2; exit 1 ;;
esac
"$python" -m pip --version >/dev/null 2>&1 || {
	echo "install-nvrtc: $python has no pip: run make tools, or set PYTHON to one that has" >&2
	exit 1
}
rm -rf "$dir"
mkdir -p "$dir"
# shellcheck disable=SC2086
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: -d "$dir" $packages
"$python" - "$dir" <<'PY'
import glob, os, sys, zipfile
for wheel in glob.glob(os.path.join(sys.argv[1], "*.whl")):
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            # ".alt" is a second build of the compiler. Nothing here uses it, nor the runtime library.
            if ".alt." not in name and "libcudart" not in name:
                z.extract(name, sys.argv[1])
    os.remove(wheel)
PY
printf %s "$packages" >"$dir/VERSION"
echo "$packages in $dir"
