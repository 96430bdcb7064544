# In each of two virtual machines with a cable between them, sourced by first.sh and second.sh: rank R of the tests of
# several hosts runs as `rank R TASK`, and writes its events to stdout as lines of JSON.
address=10.0.0.1
size=4
port=20000
rank() {
  local r=$1 task=$2
  export GOCCL_SECRET=rdma GOCCL_SOCKET_IFNAME=eth0 GOCCL_TIMEOUT=60s
  export GOCCL_TEST_TASK="{\"Do\": \"$task\", \"Rank\": $r, \"Size\": $size, \"Seed\": 7, \
\"Address\": \"$address:$port\", \"Victim\": -1}"
  exec ./hosts.test >"/tmp/$task.$r" 2>&1
}
# ranks TASK R…: these ranks of the task run here; fails if one fails.
ranks() {
  local task=$1 failed=0 pids='' r
  shift
  for r; do
    (rank "$r" "$task") &
    pids="$pids $!"
  done
  for r in $pids; do wait "$r" || failed=1; done
  for r; do sed "s/^/rank $r: /" "/tmp/$task.$r"; done
  port=$((port + 1))
  return $failed
}
# await FILE TEXT: waits until a rank has said something.
await() {
  local i=0
  until grep -q "$2" "$1" 2>/dev/null; do
    i=$((i + 1))
    [ $i -lt 600 ] || return 1
    usleep 100000
  done
}
# python R: rank R of a Python program with proxy channels, on adapter R of this machine.
python() {
  RANK=$1 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=$address MASTER_PORT=29500 GOCCL_SECRET=rdma \
    GOCCL_DEVICE=host GOCCL_LIBRARY=/work/libgoccl.so PYTHONPATH=/work python3 mesh.py IB 2>&1
}
