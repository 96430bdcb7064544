#!/usr/bin/env bash
# Runs PyTorch on goccl's libnccl.so.2, on a machine with GPUs, PyTorch and no network; leaves logs and JSON in a
# folder.
#
#   run_all.sh DIR LIB [STEP...]     DIR: for the results; LIB: path of our libnccl.so.2, libgoccl.so beside it
#
# STEPs: collectives, expandable, faults, order, symmetric (on goccl and on stock NCCL), ddp, fsdp, graph (each of these
# three on goccl, on stock NCCL, and compared), bf16 and decode (only when named). A step that fails or runs into its
# limit does not stop the others; a table ends the output, and the exit status tells whether every step passed.
#
# DECODE_BEFORE=LIB another libnccl.so.2 of goccl, which decode measures too
# GOCCL_RANKS=N   ranks to start (default: one for each GPU)
# GOCCL_TOTAL=S   seconds for all steps together (default 540); steps that would start later are left out
set -uo pipefail

if [ $# -lt 2 ]; then
  sed -n '2,12s/^# \{0,1\}//p' "$0"
  exit 2
fi
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
lib=$(realpath "$2")
shift 2
only=("$@")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -e "$lib" ] || { echo "$lib does not exist"; exit 2; }
[ -e "$(dirname "$lib")/libgoccl.so" ] || [ -n "${GOCCL_LIBRARY-}" ] ||
  { echo "libgoccl.so is not beside $lib"; exit 2; }
n=${GOCCL_RANKS:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')}
[ "$n" -ge 2 ] || { echo "$n GPUs; this needs two"; exit 2; }

# No multicast, by anyone: a program that creates multicast objects can take the host's GPUs out of service for
# everyone.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
# One host without a network: everything meets on the loopback.
export GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=lo
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(($(nproc) / n > 8 ? 8 : $(nproc) / n > 0 ? $(nproc) / n : 1))}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 EXPECT_LIBRARY=goccl
unset LD_PRELOAD

names=() results=() seconds=() notes=()
total=${GOCCL_TOTAL:-540} begin=$SECONDS
bad=0 port=$((20000 + $$ % 20000))

wanted() {
  [ "${#only[@]}" -gt 0 ] || { [ "$1" != bf16 ] && [ "$1" != decode ]; return; }
  local o
  for o in "${only[@]}"; do [ "$o" = "$1" ] && return 0; done
  return 1
}

# step NAME LIMIT COMMAND...: runs it with a limit in seconds; its output goes to NAME.log, and its last line into the
# table.
step() {
  local name=$1 limit=$2 start=$SECONDS status note
  shift 2
  local left=$((total - (SECONDS - begin)))
  if [ $left -le 5 ]; then
    names+=("$name") seconds+=(0) results+=("left out") notes+=("no time left") bad=1
    return 1
  fi
  [ $left -ge "$limit" ] || limit=$left
  timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null
  status=$?
  note=$(grep -v '^\s*$' "$out/$name.log" | grep -E 'passed, [0-9]+ failed|ranks: |FAILED' | tail -n 1)
  names+=("$name") seconds+=("$((SECONDS - start))")
  case $status in
    0) results+=(passed) ;;
    124 | 137) results+=("over ${limit} s") bad=1 ;;
    *) results+=("FAILED ($status)") bad=1 ;;
  esac
  notes+=("${note:0:170}")
  echo "== $name: ${results[-1]}, ${seconds[-1]} s"
  if [ $status != 0 ]; then tail -n 40 "$out/$name.log" | cut -c 1-300; fi
  return $status
}

# torchrun SCRIPT ARGUMENT...: one rank a GPU. Workers also end by themselves, when their parent is gone or their own
# limit is over.
torchrun() {
  port=$((port + 1))
  launch=(python3 -m torch.distributed.run --nnodes=1 --nproc-per-node="$n" --master-addr=127.0.0.1
    --master-port="$port" --max-restarts=0 "$here/$1" "${@:2}")
}

echo "$n GPUs, $lib"

if wanted collectives; then
  torchrun collectives.py --expect goccl --json "$out/collectives.json"
  step collectives 120 env LD_PRELOAD="$lib" "${launch[@]}"
  grep -E 'passed +[1-9][0-9]* failed|^    ' "$out/collectives.log" | head -n 40 | cut -c 1-250
fi
if wanted expandable; then # memory that grows in place comes from another part of the driver
  torchrun collectives.py --quick --expect goccl --json "$out/expandable.json"
  step expandable 60 env LD_PRELOAD="$lib" PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "${launch[@]}"
fi
if wanted faults; then
  step faults 180 python3 "$here/faults.py" --lib "$lib" --world "$n" --json "$out/faults.json"
  grep -E '^[a-z_ 0-9]+ (passed|FAILED)|^    ' "$out/faults.log" | cut -c 1-250
fi
if wanted order; then
  torchrun order.py --expect goccl --json "$out/order.json"
  step order 60 env LD_PRELOAD="$lib" "${launch[@]}"
  grep -E '^order' "$out/order.log" | cut -c 1-250
fi
if wanted symmetric; then
  torchrun symmetric.py
  step symmetric 60 env LD_PRELOAD="$lib" "${launch[@]}"
  torchrun symmetric.py
  step symmetric-stock 60 "${launch[@]}"
  grep -h 'us$' "$out"/symmetric*.log
fi
if wanted decode; then # what an all-reduce adds to a layer: ours, ours without overlap, another build of ours, NCCL's
  for form in goccl goccl-apart goccl-before stock; do
    set=(LD_PRELOAD="$lib") expect=goccl more=(--profile)
    case $form in
      goccl-apart) set+=(GOCCL_OVERLAP=0) more=() ;;
      goccl-before) [ -n "${DECODE_BEFORE-}" ] || continue; set=(LD_PRELOAD="$DECODE_BEFORE") ;;
      stock) set=() expect=stock more=(--profile --symmetric) ;;
    esac
    torchrun decode.py --label $form --expect $expect "${more[@]}" --json "$out/decode.$form.json"
    step decode-$form 120 env ${set[@]+"${set[@]}"} "${launch[@]}"
    cat "$out/decode-$form.log"
  done
fi
for mode in ddp fsdp graph bf16; do
  wanted $mode || continue
  arguments=() tolerance=1e-3
  case $mode in
    fsdp) arguments=(--fsdp) ;;
    graph) arguments=(--graph) ;;
    bf16) arguments=(--dtype bfloat16) tolerance=5e-2 ;; # NCCL rounds at every hop of a ring, goccl once
  esac
  torchrun train.py "${arguments[@]}" --expect goccl --json "$out/$mode.json"
  step "$mode" 60 env LD_PRELOAD="$lib" "${launch[@]}"
  torchrun train.py "${arguments[@]}" --expect stock --json "$out/$mode-stock.json"
  step "$mode-stock" 60 "${launch[@]}"
  if [ -e "$out/$mode.json" ] && [ -e "$out/$mode-stock.json" ]; then
    step "$mode-compared" 20 python3 "$here/train.py" --compare "$out/$mode.json" "$out/$mode-stock.json" \
      --tolerance "$tolerance"
  fi
done

echo
printf '%-16s %-14s %5s  %s\n' step result s note
for i in "${!names[@]}"; do
  printf '%-16s %-14s %5s  %s\n' "${names[$i]}" "${results[$i]}" "${seconds[$i]}" "${notes[$i]}"
done
[ "${#names[@]}" -gt 0 ] || { echo "no such step"; exit 2; }
exit $bad
