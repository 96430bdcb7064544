#!/usr/bin/env bash
# Runs the tests that need RDMA adapters in virtual machines, by software RDMA (rdma_rxe) on an emulated CPU: no
# privileges, no hardware. First one machine whose adapter talks to itself, then two machines with a cable. It shows
# function only: the speed of RDMA stays unmeasured.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tools=$PWD/.tools/rdma
root=$tools/root
build=$PWD/build/rdma
limit=${RDMA_SECONDS:-400} # of each of the two parts
rm -rf "$build"
mkdir -p "$build/work"

export CGO_ENABLED=1
go test -c -vet=off -o "$build/work/ib.test" ./transport/ib
go test -c -vet=off -o "$build/work/primitive.test" ./primitive
go test -c -vet=off -o "$build/work/hosts.test" ./test/hosts
cp tools/rdma/*.sh "$build/work"
cp -r python/goccl python/examples/mesh.py build/libgoccl.so "$build/work"
mkdir -p "$build/tree"
mv "$build/work" "$build/tree/work"
cp tools/rdma/init.sh "$build/tree/init"
(cd "$build/tree" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null) >"$build/tree.cpio"
cat "$tools/guest.cpio" "$build/tree.cpio" >"$build/initrd"

library=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu
export QEMU_MODULE_DIR=$root/usr/lib/x86_64-linux-gnu/qemu
# machine ROLE NUMBER [CABLE]: one virtual machine with two network interfaces, its console in $build/ROLE.log. qemu
# ends with it, or at the limit.
machine() {
  local cable=()
  if [ -n "${3-}" ]; then
    cable=(-netdev "stream,id=cable,$3,addr.type=unix,addr.path=$build/cable"
      -netdev hubport,id=plug,hubid=0,netdev=cable)
  fi
  local loader=("$root/lib64/ld-linux-x86-64.so.2" --library-path "$library")
  timeout -k 5 "$limit" "${loader[@]}" "$root/usr/bin/qemu-system-x86_64" \
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" -nodefaults -no-reboot -display none -serial stdio \
    -M q35 -cpu max -accel tcg,thread=multi -smp 2 -m 1024 -kernel "$tools/vmlinuz" -initrd "$build/initrd" \
    -append "console=ttyS0 quiet panic=-1 role=$1" -device virtio-rng-pci \
    "${cable[@]}" -netdev hubport,id=net0,hubid=0 -netdev hubport,id=net1,hubid=0 \
    -device "virtio-net-pci,netdev=net0,romfile=,mac=52:54:00:00:00:0$2" \
    -device "virtio-net-pci,netdev=net1,romfile=,mac=52:54:00:00:00:1$2" \
    </dev/null >"$build/$1.log" 2>&1 || echo "qemu ended with $?" >>"$build/$1.log"
}
# report ROLE prints what the machine said, without the firmware, and fails unless it said that all is well.
report() {
  sed -n 's/\r$//; /s after the start/,$p' "$build/$1.log"
  if ! grep -q "^rdma $1: result 0" "$build/$1.log"; then
    echo "make rdma: FAILED in the machine $1 (console: build/rdma/$1.log)"
    return 1
  fi
}

part=${1:-all}
failed=0
if [ "$part" != pair ]; then
  machine alone 1
  report alone || failed=1
fi
if [ "$part" != alone ]; then
  machine first 1 server=on &
  until [ -S "$build/cable" ] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
  machine second 2 server=off
  wait
  report first || failed=1
  report second || failed=1
fi
[ "$failed" = 0 ] && echo "make rdma: ok, in $SECONDS s. The speed of RDMA is unmeasured."
exit "$failed"
