# Steps of gpu.sh, which sources this: the links below NVLink, forced. Right results of processes, order of work, and
# time through host memory beside NCCL's.
for link in pcie host; do
  at "link.$link.processes" 120 "$work" env GOCCL_LINK=$link ./pkg.test -test.v -test.timeout 110s \
    -test.run '^TestProcesses$'
  at "link.$link.order" 60 "$work/test/gpu" env GOCCL_LINK=$link ./pkg.test -test.v -test.timeout 55s \
    -test.run '^TestGPUOrder' -order.operations 3000
done
for c in all_reduce all_to_all send_recv; do
  step "link.host.$c" 120 env NCCL_P2P_DISABLE=1 goccl perf $c --device cuda -n "$n" -d float -b 1K -e 64M -f 4 \
    --out-of-place --json "$out/link.host.$c.json" ${beside[@]+"${beside[@]}"}
done
