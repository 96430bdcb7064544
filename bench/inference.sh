# Steps of gpu.sh, which sources this: the all-reduces of inference, alone, fused and inside a decode step, beside the
# peers that PyTorch brings and those in the folder GOCCL_PEERS; the algorithms of the all-reduce, forced; and a model
# that vLLM serves, where it is installed. The bundle is no installed package, so vLLM does not find its plug-in.
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
if [ "$gpus" -lt 2 ] || [ -z "$torch" ] ||
  ! "$python" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("vllm"))' 2>/dev/null; then
  skip inference.served "fewer than two GPUs, or python3 has no vLLM"
else
  step inference.served 260 "$python" "$work/bench/inference/served.py" --json "$out/inference.served.json" --tp "$n" \
    --arms custom,library,vllm,nccl --seconds 250
  [ $list = 1 ] || [ ! -e "$out/inference.served.log" ] || ! wanted inference.served || cat "$out/inference.served.log"
fi
