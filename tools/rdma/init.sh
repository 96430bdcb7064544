#!/bin/busybox sh
# The first process of a virtual machine of `make rdma`: RDMA adapters rxe0 over eth0 and rxe1 over eth1, and then the
# script /work/$role.sh. The last line on the console is its result.
/bin/busybox mkdir -p /bin /etc
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin:/sbin HOME=/tmp
export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/blas:/usr/lib/x86_64-linux-gnu/lapack
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
while read -r module; do insmod "/modules/$module"; done </modules/order
for word in $(cat /proc/cmdline); do
  case $word in role=*) role=${word#role=} ;; esac
done
case $role in second) number=2 ;; *) number=1 ;; esac
hostname "vm$number"
ip link set lo up
# Both interfaces are on one network: each answers for its own address only, or packets for rxe1 would reach eth0.
echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
echo 2 >/proc/sys/net/ipv4/conf/all/arp_announce
for i in 0 1; do
  ip addr add "10.0.$i.$number/16" dev eth$i
  ip link set eth$i up
  rdma link add rxe$i type rxe netdev eth$i
done
ulimit -l unlimited
cd /work || exit
echo "$role: $(cut -d' ' -f1 /proc/uptime) s after the start, $(ls /sys/class/infiniband)"
/bin/busybox sh "/work/$role.sh"
echo "rdma $role: result $?"
poweroff -f
