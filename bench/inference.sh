# Steps of gpu.sh, which sources this: the all-reduces of inference, alone, fused and inside a decode step, beside the
# peers that PyTorch brings and those in the folder GOCCL_PEERS; and the algorithms of the all-reduce, forced.
if [ $device = host ]; then
  skip inference.algorithms "no GPU"
else
  sizes=(-d bfloat16 -b 1K -e 8M -f 2 --out-of-place --graph 20 -i 3 -c 30 ${beside[@]+"${beside[@]}"})
  perf inference.algorithms 60 all_reduce "${sizes[@]}" --algo all
fi
if [ -z "$torch" ]; then
  skip inference "python3 has no torch"
elif [ "$gpus" = 1 ]; then
  skip inference "fewer than two GPUs"
else
  step inference 300 "$python" "$work/bench/inference/run.py" --json "$out/inference.json" --commit "$commit" -n "$n" \
    --against "$against" --seconds 285
  [ $list = 1 ] || [ ! -e "$out/inference.log" ] || ! wanted inference || cat "$out/inference.log"
fi
