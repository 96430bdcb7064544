# Steps of gpu.sh, which sources this: mixtures of experts beside DeepEP and all_to_all_single, and DeepEP's own test
# on goccl.moe. DeepEP's kernels are for 2, 4 or 8 GPUs.
if [ "$gpus" -lt 2 ] || [ -z "$torch" ]; then
  skip moe "fewer than two GPUs, or python3 has no torch"
else
  step moe.measure 400 torchrun --nproc_per_node="$n" "$work/bench/moe/measure.py" --json "$out/moe.json"
  at moe.plain.test 200 "$work/test/moe" env GOCCL_MOE_STAGES=0 ./pkg.test -test.v -test.timeout 190s \
    -test.run '^TestGPU'
  step moe.steps 100 torchrun --nproc_per_node="$n" "$work/bench/moe/steps.py" --json "$out/moe.steps.json"
  step moe.plain.measure 200 env GOCCL_MOE_STAGES=0 DEEP_EP= torchrun --nproc_per_node="$n" \
    "$work/bench/moe/measure.py" --tokens 4096 --json "$out/moe.plain.json"
  if [ -e "${DEEP_EP-}/tests/test_intranode.py" ]; then
    step moe.intranode 300 "$python" "$work/bench/moe/intranode.py" --num-processes "$n"
  else
    skip moe.intranode "DEEP_EP names no folder with tests/test_intranode.py of DeepEP"
  fi
fi
