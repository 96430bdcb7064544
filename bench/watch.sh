# Steps of gpu.sh, which sources this: jobs that hang, faults, and what watching costs.
#
# watch.hang.*   a PyTorch job hangs, on stock NCCL with the profiler plugin and on goccl; goccl watch names the rank
# watch.chaos    faults in jobs on GPUs, of each one trial in a few phases; WATCH_CHAOS=FAULTS PHASES SECONDS other ones
# watch.cost     what records cost an all-reduce of 1 KiB, call by call and in graphs, beside equal sets without records
# watch.check    data checked by GOCCL_CHECK=2
hang() { # LIBRARY
  step "watch.hang.$1" 150 "$python" "$work/bench/watch/hang.py" "$1" "$out/watch.$1" --goccl "$(command -v goccl)" \
    --lib "$work/build" --ranks "$n"
}
if [ -z "$python" ]; then
  skip watch.hang "no python3"
elif [ $device = host ]; then
  PYTHONPATH=$work/python hang host
elif [ "$n" -lt 2 ] || [ -z "$torch" ]; then
  skip watch.hang "it needs two GPUs and torch"
else
  hang nccl
  hang goccl
fi
# A run that ends early still has about equal numbers of trials for all cells.
chaos() { # FAULTS PHASES SECONDS
  step watch.chaos $(($3 + 60)) goccl chaos --device $device --ranks $((n < 3 ? 3 : n)) --faults "$1" --phases "$2" \
    --jobs 3 -n 50 --for "${3}s" --json "$out/chaos-$device.json"
}
chaos ${WATCH_CHAOS:-kill,kill-root,stop,abort,desync,mismatch set-up,small,large,split,shrink,plan 240}
if [ $device = host ]; then
  skip watch.cost "no GPU"
else
  at watch.cost 120 "$work/test/verdict" env GOCCL_FULL=1 GOCCL_TEST_RANKS=2 ./pkg.test -test.v \
    -test.timeout 115s -test.run CostOfRecords/cuda
fi
at watch.check 100 "$work" ./pkg.test -test.v -test.timeout 95s -test.run 'FlippedBits|CheckedData|DamagedMessage'
if [ $device = cuda ]; then
  for c in all_reduce all_to_all_v send_recv; do
    step "watch.check.$c" 60 env GOCCL_CHECK=2 goccl perf $c --device cuda -n "$n" -b 1K -e 16M -f 16 -i 20 -c 3
  done
fi
