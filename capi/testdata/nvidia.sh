#!/usr/bin/env bash
# Facts out of NVIDIA's wheels of PyPI (300 MB), which is why the results are committed.
#   nvidia.sh symbols VERSION   the functions that libnccl.so.2 exports:
#                               for v in 2.28.9 2.30.7 2.32.3; do nvidia.sh symbols $v >nvidia-nccl-$v.txt; done
#   nvidia.sh layout VERSION    compares NVIDIA's headers with layout.golden; prints nothing when they agree
# $PYTHON needs pip: .venv/bin/python has it.
set -euo pipefail
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
wheels() {
	"${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: -d "$dir" "$@"
	for w in "$dir"/*.whl; do "${PYTHON:-python3}" -m zipfile -e "$w" "$dir"; done
}
case ${1-} in
symbols)
	wheels "nvidia-nccl-cu12==$2"
	nm -D --defined-only "$dir/nvidia/nccl/lib/libnccl.so.2" | awk '$2 == "T" || $2 == "W" {print $3}' | LC_ALL=C sort
	;;
layout)
	wheels "nvidia-nccl-cu13==$2" nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl
	g++ -std=c++17 -DNVIDIA -x c++ layout.c -o "$dir/layout" -I"$dir/nvidia/nccl/include" -I"$dir/nvidia/cu13/include"
	diff <(grep -v goccl_ layout.golden) <("$dir/layout")
	;;
*) sed -n 2,6p "$0"; exit 2 ;;
esac
