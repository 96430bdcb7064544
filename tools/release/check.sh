#!/usr/bin/env bash
# What a change must not break of a release, in at most three minutes after `make test`: sizes, the wheel in a fresh
# virtual environment, PyTorch by its entry point, C++ by pkg-config and by CMake. Run by `make release-check`.
# What cannot be had here, such as a package without a network, is skipped and named. RELEASE_TORCH (.tools/torch, of
# tools/install-torch.sh) is a folder with PyTorch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
data=$PWD/tools/release/testdata
python=$PWD/.venv/bin/python
torch=${RELEASE_TORCH:-$PWD/.tools/torch}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOCCL_DEVICE=host PIP_DISABLE_PIP_VERSION_CHECK=1
tree=$work/tree
passed=0
skipped=0
say() { printf 'ok    %s\n' "$*" && passed=$((passed + 1)); }
skip() { printf 'skip  %s\n' "$*" && skipped=$((skipped + 1)); }
die() { printf 'FAIL  %s\n' "$*" >&2 && exit 1; }
most() {
  size=$(stat -c %s "$2")
  [ "$size" -le $(($1 * 1000000)) ] || die "${2##*/} has $size bytes, more than $1 MB"
  say "${2##*/}: $size bytes, of $1 MB at most"
}
have() { # program, package of Debian
  command -v "$1" >/dev/null && return
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq >/dev/null 2>&1 &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1; then
    return
  fi
  skip "$3: there is no $1, and the package $2 cannot be had"
  return 1
}

make -s install DESTDIR= PREFIX="$tree"
most 25 "$tree/lib/libgoccl.so"

if ! "$python" -m pip wheel -q --no-deps -w "$work/pypi" setuptools wheel packaging numpy 2>"$work/said"; then
  skip "wheel, PyTorch: PyPI cannot be reached: $(tail -1 "$work/said")"
else
  rm -rf python/build
  RELEASE_TREE=$tree "$python" -m pip wheel -q --no-deps --no-index -f "$work/pypi" -w "$work" ./python
  most 15 "$(echo "$work"/goccl-*.whl)"
  "$python" -m venv "$work/venv"
  "$work/venv/bin/python" -m pip install -q --no-index -f "$work/pypi" "$work"/goccl-*.whl
  cd "$work"
  "$work/venv/bin/python" -c 'from goccl import nccl; nccl.Communicator.init_all(2)'
  cd - >/dev/null
  say "wheel in a fresh virtual environment"
  if [ -e "$torch/torch" ]; then
    echo "$torch" >"$("$work/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')/torch.pth"
    # PyTorch loads backends when it is imported too (torch.backends): without that, only the name brings this one.
    (cd "$work" && TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$work/venv/bin/python" "$data/group.py" "$work/store")
    say "PyTorch by the entry point torch.distributed.backends"
  else
    skip "PyTorch: it is not in $torch"
  fi
fi

if have pkg-config pkgconf "C++ by pkg-config"; then
  flags=$(PKG_CONFIG_PATH=$tree/share/pkgconfig pkg-config --cflags --libs goccl-nccl goccl)
  # shellcheck disable=SC2086
  g++ -std=c++17 -o "$work/sum" "$data/sum.cpp" $flags
  "$work/sum"
  say "C++ by pkg-config"
fi
if have cmake cmake "C++ by CMake"; then
  cmake -S "$data" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$tree" >/dev/null
  cmake --build "$work/cmake" >/dev/null
  "$work/cmake/sum"
  say "C++ by CMake"
fi
echo "$passed passed, 0 failed, $skipped skipped"
