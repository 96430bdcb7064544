#!/bin/sh
# Times of collectives of two hosts (network namespaces, two ranks each, one link whose rate tc limits), beside what the
# simulator predicts for the program with the same steps. Needs root. Arguments: the goccl command, a folder for
# results. It takes about three minutes.
set -eu
goccl=$1 out=$2
mkdir -p "$out"
clean() { ip netns del goccl-a 2>/dev/null || :; ip netns del goccl-b 2>/dev/null || :; }
trap clean EXIT
for mbit in 100 200 400; do
  clean
  ip netns add goccl-a
  ip netns add goccl-b
  ip link add va netns goccl-a type veth peer name vb netns goccl-b
  for h in a b; do
    ip -n goccl-$h addr add 10.211.0.$([ $h = a ] && echo 1 || echo 2)/24 dev v$h
    ip -n goccl-$h link set lo up
    ip -n goccl-$h link set v$h up
    ip netns exec goccl-$h tc qdisc add dev v$h root tbf rate ${mbit}mbit burst 64kb latency 400ms
  done
  # A frame of 1,514 bytes (and what the qdisc counts of it) carries 1,448 of payload.
  cat > "$out/machine.$mbit.json" <<END
{"name": "two hosts at $mbit Mbit/s", "ranks_per_host": 2, "nics_per_host": 1,
 "launch_us": 20, "finish_us": 5, "op_us": 1, "operand_us": 0.5, "nop_us": 0.1, "fence_us": 0.1, "flag_us": 5,
 "pull_us": 1, "barrier_us": 5, "semaphore_us": 5,
 "nvlink": {"port_gbps": 4, "put_efficiency": 1, "get_efficiency": 1, "packet_efficiency": 1, "copy_efficiency": 1,
  "collide": 0},
 "block": {"threads": 512, "round_us": 3, "packet_us": 4, "quick_us": 4, "more_us": 0, "bulk_gbps": 3, "split_gbps": 3,
  "put_gbps": 3, "copy_gbps": 3}, "memory_gbps": 8,
 "rail": {"nic_gbps": $(awk "BEGIN {print $mbit / 8e3 * 1448 / 1514}"), "pcie_gbps": 8, "latency_us": 50,
  "cross_rail_us": 0, "proxy_us": 10}}
END
  for c in all_reduce:allreduce_hierarchical all_gather:allgather_hierarchical \
    reduce_scatter:reducescatter_hierarchical all_to_all:alltoall_direct; do
    for r in 0 1 2 3; do
      h=a
      [ $r -lt 2 ] || h=b
      RANK=$r WORLD_SIZE=4 LOCAL_RANK=$((r % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.211.0.1 MASTER_PORT=29777 \
        NCCL_HOSTID=$h ip netns exec goccl-$h timeout 100 "$goccl" perf "${c%:*}" --device host --out-of-place \
        -b 1M -e 4M -f 4 -c 5 --json "$out/${c%:*}.$mbit.$r.json" > "$out/log.$r" 2>&1 &
    done
    wait
    mv "$out/${c%:*}.$mbit.0.json" "$out/${c%:*}.$mbit.json"
    rm -f "$out/${c%:*}.$mbit."[123].json
    "$goccl" plan simulate "${c#*:}" -n 4 --hosts 2 --instances 1 --machine "$out/machine.$mbit.json" -b 1M,4M \
      > "$out/${c%:*}.$mbit.simulated"
  done
done
rm -f "$out"/log.*
