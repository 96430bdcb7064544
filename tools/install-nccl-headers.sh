#!/bin/sh
# Unpack the headers of each NCCL with a device API from PyPI's wheels (200 MB each, which are not kept) into
# .tools/nccl/VERSION of the repository. Tests compare goccl's layouts with them. $PYTHON needs pip.
set -eu
python=${PYTHON:-python3}
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)/.tools/nccl
for v in 2.28.3 2.28.7 2.28.9 2.29.2 2.29.3 2.29.7 2.30.3 2.30.4 2.30.7 2.31.2 2.32.3; do
	if [ -e "$root/$v/include/nccl_device.h" ]; then
		continue
	fi
	work=$(mktemp -d)
	"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: -d "$work" \
		"nvidia-nccl-cu13==$v"
	"$python" -m zipfile -e "$work"/*.whl "$work"
	mkdir -p "$root/$v"
	rm -rf "${root:?}/$v/include"
	cp -R "$work/nvidia/nccl/include" "$root/$v/include"
	rm -rf "$work"
	echo "headers of NCCL $v in $root/$v"
done
