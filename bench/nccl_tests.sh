# Steps of gpu.sh, which sources this: nccl-tests, unmodified. A process per GPU if built with MPI, all GPUs in one
# process, a thread per GPU.
preload=(env "LD_PRELOAD=$work/build/libnccl.so.2" NCCL_DEBUG=VERSION)
nccl_test() { # NAME PROGRAM ARGUMENTS...
  local name=nccl-tests.$1 program=$NCCL_TESTS/$2
  shift 2
  if [ ! -x "$program" ]; then skip "$name" "$program is not there"; return; fi
  if [ -n "$mpirun" ] && ldd "$program" | grep -q libmpi; then
    step "$name" 120 "$mpirun" --allow-run-as-root --oversubscribe -np "$n" "${preload[@]}" "$program" -g 1 "$@"
  else
    step "$name" 120 "${preload[@]}" "$program" -g "$n" "$@"
  fi
}
if [ -z "${NCCL_TESTS-}" ]; then
  skip nccl-tests "NCCL_TESTS names no folder"
elif [ $device = host ]; then
  skip nccl-tests "no GPU"
else
  for t in all_{reduce,gather} reduce_scatter alltoall{,v} broadcast reduce gather scatter sendrecv hypercube; do
    nccl_test "$t" ${t}_perf -b 8 -e 32M -f 32 -d all -o all -c 1 -n 5 -w 1
  done
  nccl_test graph all_reduce_perf -b 1K -e 64M -f 16 -G 10 -c 1
  nccl_test unaligned all_reduce_perf -b 1K -e 64M -f 16 -u 1 -c 1
  nccl_test blocking alltoall_perf -b 1K -e 64M -f 16 -z 1 -c 1
  nccl_test registered all_reduce_perf -b 1K -e 64M -f 16 -R 1 -c 1
  nccl_test symmetric all_reduce_perf -b 1K -e 64M -f 16 -R 2 -c 1
  step nccl-tests.threads 120 "${preload[@]}" "$NCCL_TESTS/all_reduce_perf" -t "$n" -g 1 -b 1K -e 64M -f 16 -c 1
  step nccl-tests.single 120 "${preload[@]}" "$NCCL_TESTS/all_reduce_perf" -g "$n" -b 1K -e 64M -f 16 -c 1
fi
