# GEMMs that overlap communication, beside PyTorch's symmetric memory. Part of gpu.sh.
for g in triton cuda; do
  if [ "$gpus" -lt 2 ] || [ -z "$torch" ]; then
    skip "overlap.$g" "fewer than two GPUs, or python3 has no torch"
  else
    step "overlap.$g" 200 torchrun --nproc_per_node="$n" "$work/python/examples/gemm_overlap_$g.py" \
      --json "$out/overlap.$g.json"
  fi
done
