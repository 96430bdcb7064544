#!/usr/bin/env bash
# Fetches what `make rdma` needs into .tools/rdma, once: QEMU, a kernel with rdma_rxe (RDMA in software, over Ethernet),
# libibverbs and Python for the virtual machine, and verbs.h. All are packages of this Debian release. They are only
# unpacked: nothing is installed, and root is not needed. About 110 MB are downloaded.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

out=$PWD/.tools/rdma
version=1 # of this script: another one fetches again
if [ "$(cat "$out/ready" 2>/dev/null)" = "$version" ]; then
  exit 0
fi
fail() {
  echo "make rdma: $*" >&2
  exit 1
}
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
  fail "needs apt-get and dpkg-deb, and packages as Debian 12 has them (qemu-system-x86, linux-image-amd64, and others)"
fi
[ "$(uname -m)" = x86_64 ] || fail "runs on x86-64 only"

rm -rf "$out"
mkdir -p "$out"/apt/{state/lists/partial,cache/archives/partial} "$out"/{root,guest,kernel}
: >"$out/apt/status"
# A separate apt state in which nothing is installed: packages come with all their dependencies, and apt takes no lock
# of the system.
own=(-o Dir::State="$out/apt/state" -o Dir::State::status="$out/apt/status" -o Dir::Cache="$out/apt/cache")
apt() {
  apt-get -qq "${own[@]}" -o APT::Sandbox::User=root -o Acquire::Retries=3 "$@" >>"$out/apt/log" 2>&1 </dev/null ||
    fail "apt-get ${*: -1} failed, see below; it needs the network and Debian's packages
$(tail -5 "$out/apt/log")"
}
debs() { # moves the packages given and their dependencies to folder $1
  local to=$1
  shift
  apt install --download-only -y --no-install-recommends "$@"
  mkdir -p "$to"
  mv "$out"/apt/cache/archives/*.deb "$to"
}
unpack() { # every package of folder $1 into $2
  local deb
  for deb in "$1"/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$2" --no-same-owner --exclude='./usr/share/doc*' \
      --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/share/perl*' \
      --exclude='./usr/lib/x86_64-linux-gnu/perl*' \
      --exclude='./usr/share/i18n' --exclude='./usr/lib/x86_64-linux-gnu/gconv'
  done
  rm -r "$1"
}

echo "make rdma: fetching QEMU and a kernel into .tools/rdma (once, about 110 MB)"
apt update
debs "$out/apt/guest" busybox-static ibverbs-providers iproute2 libpython3-stdlib python3-numpy
unpack "$out/apt/guest" "$out/guest"
debs "$out/apt/root" qemu-system-x86 busybox-static kmod libibverbs-dev
unpack "$out/apt/root" "$out/root"
image=$(apt-cache "${own[@]}" depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
[ -n "$image" ] || fail "there is no package linux-image-amd64"
(mkdir "$out/apt/kernel" && cd "$out/apt/kernel" && apt download "$image")
unpack "$out/apt/kernel" "$out/kernel"

# The modules that the virtual machine loads, and the modules that these need.
root=$out/root
release=$(ls "$out/kernel/lib/modules")
modules=$out/kernel/lib/modules/$release
library=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu
"$root/lib64/ld-linux-x86-64.so.2" --argv0 depmod --library-path "$library" "$root/bin/kmod" \
  -b "$out/kernel" "$release"
guest=$out/guest
mkdir -p "$guest/modules" "$guest"/{proc,sys,dev,tmp,work}
order=$guest/modules/order # those that a module needs come before it
for name in virtio_pci virtio_net crc32_generic ib_uverbs rdma_rxe; do
  line=$(grep -m1 "/$name\.ko:" "$modules/modules.dep") || fail "$image has no module $name"
  tr -d ':' <<<"$line" | tr ' ' '\n' | tac
done | awk '!seen[$0]++' >"$order.all"
while read -r path; do
  cp "$modules/$path" "$guest/modules"
  basename "$path"
done <"$order.all" >"$order"
rm "$order.all"

# Providers of adapters that the machine does not have are only slow to open.
find "$guest/usr/lib/x86_64-linux-gnu/libibverbs" -name '*.so' ! -name 'librxe*' -delete
find "$guest/etc/libibverbs.d" -type f ! -name 'rxe*' -delete
rm -rf "$guest"/usr/{include,games,sbin} "$guest"/usr/share/{i18n,bash-completion,zoneinfo,pam*} "$guest"/var
find "$guest/usr/lib/python3" -name tests -prune -exec rm -r {} +
cp "$out"/kernel/boot/vmlinuz-* "$out/vmlinuz"
rm -r "$out/kernel" "$out/apt"
(cd "$guest" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null) >"$out/guest.cpio"
echo "$version" >"$out/ready"
