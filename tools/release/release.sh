#!/usr/bin/env bash
# Builds a release of the commit at HEAD in the folder $1. Run by `make release`. No GPU is needed.
#
# Two runs, in any folders, write the same bytes: sources come from a clean clone, times are the commit's, paths are
# trimmed, and the C compiler is pinned (zig, which links against glibc 2.28 for both architectures).
set -euo pipefail
umask 022
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p "${1:?the folder of the release}"
out=$(cd "$1" && pwd)
here=$PWD
rm -rf "${out:?}"/*
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone -q --shared . "$work/src"
cd "$work/src"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' python/pyproject.toml)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
tag=$(git describe --tags --exact-match 2>/dev/null || true)
if [ -n "$tag" ] && [ "$tag" != "v$version" ]; then
  echo "HEAD has the tag $tag, and python/pyproject.toml has version $version: make them agree" >&2
  exit 1
fi
stated=$(grep -hE '^version = |^__version__ = |^Version: |^set\(PACKAGE_VERSION |github.com/goccl/goccl v[0-9]' \
  python/pyproject.toml python/mscclpp/pyproject.toml python/goccl/__init__.py capi/package/* cmd/goccl/go.mod |
  grep -oE '[0-9]+\.[0-9.]+' | sort -u)
if [ "$stated" != "$version" ]; then
  echo "files state different versions: $(echo $stated)" >&2
  exit 1
fi

# The compiler, and what writes wheels.
venv=$here/build/release-venv
if ! cmp -s tools/release/requirements.txt "$venv/requirements.txt"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r tools/release/requirements.txt
  cp tools/release/requirements.txt "$venv/"
fi
export PATH=$venv/bin:$PATH
make -s build/kernels/overlay.json

# 1. One tree for each architecture: bin, lib, include, share. A static program has no CUDA device, because it cannot
# open the driver.
for arch in x86_64 aarch64; do
  goarch=amd64
  [ $arch = x86_64 ] || goarch=arm64
  tree=$work/goccl-$version-linux-$arch
  rm -rf build/lib* build/goccl build/include
  CC="$venv/bin/python -m ziglang cc -target $arch-linux-gnu.2.28" GOARCH=$goarch CGO_ENABLED=1 \
    make -s install DESTDIR= PREFIX="$tree"
  cp LICENSE "$tree/share/"
  CGO_ENABLED=0 GOARCH=$goarch make -s build/goccl-static
  install -m 755 build/goccl-static "$out/goccl-$version-linux-$arch-static"
done

# 2. Wheels. The program has another wheel, goccl-tool: most jobs need the libraries alone.
for arch in x86_64 aarch64; do
  tree=$work/goccl-$version-linux-$arch
  platform=manylinux_2_28_$arch
  rm -rf python/build
  RELEASE_TREE=$tree RELEASE_PLATFORM=$platform \
    pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$out" ./python
  tool=$work/tool-$arch
  mkdir -p "$tool/goccl/lib" "$tool/goccl_tool-$version.dist-info"
  cp "$tree/bin/goccl" "$tool/goccl/lib/"
  sed "s/@VERSION@/$version/" tools/release/tool.metadata >"$tool/goccl_tool-$version.dist-info/METADATA"
  printf 'Wheel-Version: 1.0\nGenerator: goccl\nRoot-Is-Purelib: false\nTag: py3-none-%s\n' "$platform" \
    >"$tool/goccl_tool-$version.dist-info/WHEEL"
  wheel pack -d "$out" "$tool" >/dev/null
done

# 3. Archives, and packages of Debian, which keep all below /opt/goccl: a libnccl.so.2 elsewhere would hide NVIDIA's.
for arch in x86_64 aarch64; do
  tree=$work/goccl-$version-linux-$arch
  tar -C "$work" --sort=name --mtime=@"$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c "${tree##*/}" |
    gzip -9n >"$out/${tree##*/}.tar.gz"
  debian=amd64
  [ $arch = x86_64 ] || debian=arm64
  deb=$work/deb-$arch
  mkdir -p "$deb"/{DEBIAN,opt,usr/bin,usr/share/pkgconfig,usr/share/cmake,usr/share/doc/goccl}
  cp -R "$tree" "$deb/opt/goccl"
  ln -s /opt/goccl/bin/goccl "$deb/usr/bin/goccl"
  ln -s /opt/goccl/share/cmake/goccl "$deb/usr/share/cmake/goccl"
  for pc in "$tree"/share/pkgconfig/*.pc; do
    sed 's,^prefix=.*,prefix=/opt/goccl,' "$pc" >"$deb/usr/share/pkgconfig/${pc##*/}"
  done
  cp LICENSE "$deb/usr/share/doc/goccl/copyright"
  sed "s/@VERSION@/$version/; s/@ARCH@/$debian/" tools/release/control >"$deb/DEBIAN/control"
  dpkg-deb --root-owner-group -Zgzip --build "$deb" "$out/goccl_${version}_$debian.deb" >/dev/null
done

# 4. Lists of modules (CycloneDX), and sums.
for arch in x86_64 aarch64; do
  for file in bin/goccl lib/libgoccl.so; do
    (cd "$here/tools/release" && GOWORK=off go tool cyclonedx-gomod bin -json -noserial -notimestamp \
      -version "v$version" -output "$out/$(basename "$file")-$version-linux-$arch.cdx.json" \
      "$work/goccl-$version-linux-$arch/$file")
  done
done
cd "$out"
sha256sum -- * >"$work/sums"
cp "$work/sums" SHA256SUMS
ls -l
