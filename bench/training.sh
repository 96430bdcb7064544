# Steps of gpu.sh, which sources this: training steps on NCCL and on goccl, by turns, and their losses.
turns() { # NAME LIMIT PROGRAM ARGUMENTS...: a program of bench/ that takes turns, and its table
  local name=$1 limit=$2 program=$3
  shift 3
  if [ "$gpus" -lt 2 ] || [ -z "$torch" ]; then
    skip "$name" "fewer than two GPUs, or python3 has no torch"
    return
  fi
  step "$name" "$limit" "$python" "$work/bench/$program" "$@" --json "$out/$name.json" --commit "$commit" -n "$n" \
    --library "$work/build/libnccl.so.2" --seconds $((limit - 8))
  [ $list = 1 ] || [ ! -e "$out/$name.log" ] || ! wanted "$name" || sed 1,2d "$out/$name.log"
}
turns training.steps 160 training/run.py
turns training.losses 130 training/run.py --order ngng --steps 0 --losses 100 --modes ddp,fsdp,tp
