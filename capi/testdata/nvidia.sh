#!/usr/bin/env bash
# The functions that NVIDIA's libnccl.so.2 of a version exports, out of its wheel of PyPI (300 MB), which is why the
# lists are committed:
#   for v in 2.28.9 2.30.7; do capi/testdata/nvidia.sh $v >capi/testdata/nvidia-nccl-$v.txt; done
# $PYTHON needs pip: .venv/bin/python has it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  -d "$dir" "nvidia-nccl-cu12==$1"
"${PYTHON:-python3}" -m zipfile -e "$dir"/*.whl "$dir"
nm -D --defined-only "$dir/nvidia/nccl/lib/libnccl.so.2" | awk '$2 == "T" || $2 == "W" {print $3}' | LC_ALL=C sort
