#!/usr/bin/env bash
# Makes sure that $1 (.tools/torch) has PyTorch of PyPI, for CPU tensors: 540 MB are downloaded. NVIDIA's libraries,
# 2.5 GB that its CUDA half is linked with, are replaced by stubs whose functions all return 100: there is no device.
# PYTHON is the interpreter that it is for.
set -euo pipefail
version=2.15.0
python=${PYTHON:-python3}
out=${1:-.tools/torch}
want="$version for $("$python" -c 'import sys; print(sys.version_info[:2])'), stubs 1"
[ "$(cat "$out/ready" 2>/dev/null)" != "$want" ] || exit 0
rm -rf "$out"
mkdir -p "$out/nvidia/cu13/lib"
install=("$python" -m pip install -q --disable-pip-version-check --no-compile --only-binary=:all: --target "$out")
"${install[@]}" --no-deps "torch==$version"
"${install[@]}" 'typing-extensions>=4.13' sympy networkx filelock jinja2 fsspec numpy

# Versioned symbols go to the library that their version names, all others to libnccl.so.2.
libraries=("$out"/torch/lib/*.so)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -D --defined-only "${libraries[@]}" 2>/dev/null |
  awk 'NF == 3 { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/has"
nm -D --undefined-only --with-symbol-versions "${libraries[@]}" 2>/dev/null |
  awk '$1 == "U" && $2 !~ /GLIBC|GCC_|CXXABI|GOMP_|OMP_|^_?Py|^_Z/ { print $2 }' | sort -u >"$work/asked"
for soname in $(readelf -d "${libraries[@]}" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort -u); do
  case $soname in libcu[!d]* | libcud[!a]* | libcuda[!.]* | libnccl* | libnv*) ;; *) continue ;; esac
  tag=$soname
  case $soname in libnvshmem*) tag=NVSHMEM ;; esac
  if [ "$soname" = libnccl.so.2 ]; then
    grep -v @ "$work/asked" | grep -vxFf "$work/has" >"$work/names" || true
  else
    sed -n "s/@\{1,2\}$tag\$//p" "$work/asked" >"$work/names"
  fi
  sed 's/.*/int &(void) { return 100; }/' "$work/names" >"$work/stub.c"
  link=(-Wl,-soname,"$soname")
  if [ -s "$work/names" ] && [ "$soname" != libnccl.so.2 ]; then
    echo "$tag { *; };" >"$work/map"
    link+=(-Wl,--version-script="$work/map")
  fi
  gcc -w -fno-builtin -shared -fPIC -o "$out/nvidia/cu13/lib/$soname" "$work/stub.c" "${link[@]}"
done
echo "$want" >"$out/ready"
