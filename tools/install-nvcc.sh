#!/bin/sh
# Unpack nvcc and CUDA's headers of one release from PyPI's wheels into .tools/nvcc of the repository, for the tests of
# C++ programs with kernels. No GPU is needed. $PYTHON needs pip.
set -eu
python=${PYTHON:-python3}
packages="nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88"
packages="$packages nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85"
dir=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)/.tools/nvcc
if [ -e "$dir/nvidia/cu13/bin/nvcc" ] && [ "$(cat "$dir/VERSION" 2>/dev/null)" = "$packages" ]; then
	exit 0
fi
rm -rf "$dir"
mkdir -p "$dir"
# shellcheck disable=SC2086
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: -d "$dir" $packages
for wheel in "$dir"/*.whl; do
	"$python" -m zipfile -e "$wheel" "$dir"
	rm "$wheel"
done
# The names by which the linker looks.
ln -s lib "$dir/nvidia/cu13/lib64"
ln -s libcudart.so.13 "$dir/nvidia/cu13/lib/libcudart.so"
chmod +x "$dir"/nvidia/cu13/bin/* "$dir"/nvidia/cu13/nvvm/bin/*
printf %s "$packages" >"$dir/VERSION"
echo "$packages in $dir"
