# Steps of gpu.sh, which sources this behind training.sh: collectives beside GEMMs and alone, on NCCL and on goccl by
# turns; GEMMs that overlap communication, beside PyTorch's symmetric memory.
turns overlap.beside 80 overlap/run.py beside
turns overlap.alone 80 overlap/run.py alone
for g in triton cuda; do
  if [ "$gpus" -lt 2 ] || [ -z "$torch" ]; then
    skip "overlap.$g" "fewer than two GPUs, or python3 has no torch"
  else
    step "overlap.$g" 200 torchrun --nproc_per_node="$n" "$work/python/examples/gemm_overlap_$g.py" \
      --json "$out/overlap.$g.json"
  fi
done
