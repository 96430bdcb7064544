#!/usr/bin/env bash
# Gathers in build/gpu/ what bench/gpu.sh needs on a GPU host without Go: one archive, and the script. Run by `make gpu-bundle`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ldflags=${1:?the linker flags}
dest=build/gpu
limit=$((48 << 20))

# Packages whose tests have something to say about a GPU. Those that are not there yet are left out.
packages=(. device/cuda internal/driver internal/driver/ncclabi kernels/jit primitive transport/ipc algorithm/nvlink executor)

rm -rf "$dest" build/gpu.tree
mkdir -p "$dest" build/gpu.tree/{bin,tests,examples,bench}
tree=$PWD/build/gpu.tree
build=(-trimpath -ldflags "$ldflags")
export CGO_ENABLED=1

go build "${build[@]}" -o "$tree/bin/goccl" ./cmd/goccl
for p in "${packages[@]}"; do
  compgen -G "$p/*_test.go" >/dev/null || continue
  name=${p//\//_}
  [ "$p" = . ] && name=goccl
  mkdir "$tree/tests/$name"
  go test -c "${build[@]}" -o "$tree/tests/$name/pkg.test" "./$p"
  if [ -d "$p/testdata" ]; then cp -r "$p/testdata" "$tree/tests/$name/"; fi
done
for kind in examples bench; do
  [ -d "$kind" ] || continue
  while IFS= read -r p; do
    [ -n "$p" ] && go build "${build[@]}" -o "$tree/$kind/$(basename "$p")" "$p"
  done < <(go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' "./$kind/..." 2>/dev/null)
done
for lib in libnccl.so.2 libgoccl.so; do
  if [ -e "build/$lib" ]; then cp "build/$lib" "$tree/bin/"; fi
done

# gzip unpacks anywhere; xz is for when that is too large.
tar -C "$tree" -czf "$dest/goccl-gpu.tar.gz" .
if [ "$(du -sb "$dest" | cut -f1)" -gt $((limit - 65536)) ]; then
  rm "$dest/goccl-gpu.tar.gz"
  tar -C "$tree" -c . | xz -T2 -6 >"$dest/goccl-gpu.tar.xz"
fi
cp bench/gpu.sh "$dest/"
rm -rf build/gpu.tree
size=$(du -sb "$dest" | cut -f1)
echo "$dest: $((size >> 20)) MiB"
if [ "$size" -gt "$limit" ]; then
  echo "the bundle is larger than $((limit >> 20)) MiB" >&2
  exit 1
fi
