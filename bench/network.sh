# Steps of gpu.sh, which sources this: two hosts of one machine, a process for each GPU, TCP on the loopback interface.
# Half of the ranks have another NCCL_HOSTID. Time beside NCCL's with sockets, as it comes and with more of them.

# hosts_perf COLLECTIVE JSON SOCKETS ARGUMENTS...: a process for each rank; rank 0 prints. SOCKETS are NCCL's threads
# and sockets of each, to a peer: 0 as both libraries come; 1x1 one connection for large messages of both; 2x2 and 4x8
# NCCL with more, beside goccl as it comes.
hosts_perf() {
  local c=$1 json=$2 sockets=$3 port=$((20000 + RANDOM % 10000)) r pids=() failed=0
  shift 3
  [ "$sockets" = 0 ] || export NCCL_SOCKET_NTHREADS=${sockets%x*} NCCL_NSOCKS_PERTHREAD=${sockets#*x}
  [ "$sockets" != 1x1 ] || export GOCCL_NET_SOCKETS=1
  for ((r = n - 1; r >= 0; r--)); do
    env RANK=$r WORLD_SIZE="$n" LOCAL_RANK=$r LOCAL_WORLD_SIZE="$n" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      GOCCL_SECRET=hosts NCCL_HOSTID=host$((r * 2 / n)) GOCCL_NET=tcp GOCCL_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo \
      NCCL_NET=Socket goccl perf "$c" --device $device -d float --out-of-place --json "$json" "$@" &
    pids+=($!)
  done
  for r in "${pids[@]}"; do wait "$r" || failed=1; done
  return $failed
}
export -f hosts_perf
export n device
for c in all_reduce all_to_all all_gather send_recv; do
  for sockets in 0 1x1 2x2 4x8; do
    step "network.$c.sockets$sockets" 150 bash -c 'hosts_perf "$@"' - "$c" "$out/network.$c.$sockets.json" "$sockets" \
      -b 1K -e 64M -f 4 ${beside[@]+"${beside[@]}"}
  done
done
