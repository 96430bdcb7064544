#!/usr/bin/env bash
# Runs the GPU bundle (make gpu-bundle) on a machine with GPUs and no Go, and leaves logs and JSON in a folder.
#
#   gpu.sh DIR [STEP...]     all steps, or those whose name starts with one of STEP
#   gpu.sh -l [STEP...]      lists them with their time limits, and runs nothing
#
#   host         doctor, topology, version
#   test         the packages' tests that use GPUs
#   order        random calls on several streams, eager, captured and replayed, against the same calls in sequence
#   link         the links below NVLink, forced: right results, order of work, time beside NCCL through host memory
#   network      two "hosts" of one machine over TCP on the loopback, time beside NCCL's sockets
#   fault        killed, absent, disagreeing and aborting ranks; fault.survivors: stops, kills in splits and shrinks
#   tutorial     the tutorials, as programs of one command and as a process per rank
#   primitives   signals, puts, all-to-all push, proxy, set-up of a mesh, beside their targets
#   communicator start-up, GPU memory, CPU time and allocations of eager calls, beside their targets; .beside: memory of
#                1, 8 and 64 communicators and of cycles, beside NCCL (needs torch)
#   correct      every collective, type and operator, odd and unaligned; .1G: all-reduce; .large: ring and streams
#   sanitizer    small collectives under compute-sanitizer (needs it)
#   perf         time beside NCCL's library in the same run, eager and in graphs
#   plan         every built-in plan run and checked; plan.time: beside native kernels
#   python       the Python package: its GPU suite and examples (needs torch)
#   training     steps of a small Llama by DDP, FSDP2 and tensor parallelism, beside NCCL; .losses: 100 steps' losses
#                (needs torch)
#   overlap      .beside: collectives beside GEMMs, .alone: collectives alone, beside NCCL; GEMMs that overlap an
#                all-gather or a reduce-scatter, beside symm_mem (needs torch; .triton: Triton)
#   torch        PyTorch on libnccl.so.2: collectives, faults, DDP, FSDP, graphs, beside stock NCCL (needs torch)
#   inference    all-reduces alone, fused and in a decode step, beside NCCL, symmetric memory, peers (needs torch);
#                .served: tokens per second of vLLM, on NCCL and on goccl (needs vLLM)
#   moe          mixtures of experts beside DeepEP and all_to_all_single; DeepEP's test on goccl.moe (needs torch)
#   channels     memory channels beside MSCCL++'s tutorial 03
#   watch        PyTorch jobs that hang, on NCCL and on goccl, and goccl watch on them (needs torch); faults (goccl
#                chaos); what records cost; data checked by GOCCL_CHECK=2
#   nccl-tests   NVIDIA's nccl-tests on libnccl.so.2 (needs NCCL_TESTS)
#   tune         the selection table that this machine would have
#
# A step that fails or exceeds its time limit does not stop the others. A table ends the output; summary.json has it
# with commit, machine and commands; the exit status tells whether every step passed. Without GPUs the host device
# runs the steps that need none, with small sizes, to test this script.
#
# GOCCL_AGAINST=PATH       a libnccl.so.2 to measure beside (default: the one that pip installed, if there is one)
# GOCCL_PEERS=DIR          a folder of peers of inference (bench/inference/contender.py has their interface)
# DEEP_EP=DIR, MSCCLPP=DIR the folders of DeepEP and MSCCL++: see bench/moe/measure.py, bench/channels.sh
# NCCL_TESTS=DIR           the folder of nccl-tests' programs
# GOCCL_BENCH=quick        fewer sizes and types
# GOCCL_ORDER_OPERATIONS=N operations of each step of order (default: 100000)
# GOCCL_BENCH_SECONDS=N    steps that would begin after N seconds are left out, and the last one is cut short
set -uo pipefail

usage() { sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; }
list=0 out=.
case ${1-} in
  -l) list=1 ;;
  '' | -*) usage; exit 2 ;;
  *) mkdir -p "$1" || exit 1; out=$(cd "$1" && pwd) ;;
esac
shift && only=("$@")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
here_script=$here/$(basename "${BASH_SOURCE[0]}")
# No multicast: a program that creates multicast objects can take the host's GPUs out of service.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
unset LD_PRELOAD GOCCL_ALGO GOCCL_TUNING GOCCL_PLAN_DIR GOCCL_DEVICE

# 1. Unpack.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v xz >/dev/null; then
  tar -xJf "$here/goccl-gpu.tar.xz" -C "$work" || exit 1
else
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
    "$here/goccl-gpu.tar.xz" "$work" || exit 1
fi
export PATH=$work/bin:$PATH

# 2. The GPUs of this machine.
gpus=$(goccl topo --json 2>/dev/null | grep -c '"uuid"')
if [ "$gpus" = 0 ]; then device=host n=2; else device=cuda n=$gpus; fi
python=$(command -v python3 || command -v python || true)
torch= mpirun=$(command -v mpirun || true)
against=${GOCCL_AGAINST-}
if [ -n "$python" ]; then
  torch=$("$python" -c 'import importlib.util as u; print("yes" if u.find_spec("torch") else "")' 2>/dev/null)
  if [ -z "${GOCCL_AGAINST+set}" ]; then
    against=$("$python" -c 'import importlib.util as u
s = u.find_spec("nvidia.nccl")
print(next(iter(s.submodule_search_locations)) + "/lib/libnccl.so.2" if s else "")' 2>/dev/null)
  fi
fi
beside=()
[ -n "$against" ] && [ -e "$against" ] && beside=(--against "$against")
machine="$n x host device"
[ "$gpus" = 0 ] || machine="$gpus x $(goccl topo --json | sed -n '/"gpus"/,$s/^.*"name": "\(.*\)",*$/\1/p' | head -n 1)"
commit=$(goccl version --json | sed -n 's/^.*"commit": "\(.*\)".*$/\1/p')
begin=$(date -u +%Y-%m-%dT%H:%M:%SZ)
if [ $list = 0 ]; then
  echo "goccl $commit on $machine; beside ${against:-no other library}"
  [ "$gpus" != 0 ] || echo "no GPU: small sizes on the host device; its figures say nothing about GPUs"
fi

names=() results=() seconds=() commands=() bad=0

# quoted prints its argument as a JSON string.
quoted() {
  local s=$1
  s=${s//\\/\\\\} s=${s//\"/\\\"} s=${s//$'\n'/ } s=${s//$'\t'/ }
  printf '"%s"' "$s"
}

# summary writes summary.json: build, machine, steps.
summary() {
  local i
  {
    printf '{\n "schema": "goccl-gpu/1",\n "begin": "%s",\n "commit": %s,\n' "$begin" "$(quoted "$commit")"
    printf ' "machine": %s,\n "against": %s,\n "steps": [\n' "$(quoted "$machine")" "$(quoted "$against")"
    for i in "${!names[@]}"; do
      printf '  %s{"step": "%s", "result": %s, "seconds": %d, "command": %s}\n' "$([ "$i" = 0 ] || echo ', ')" \
        "${names[$i]}" "$(quoted "${results[$i]}")" "${seconds[$i]}" "$(quoted "${commands[$i]}")"
    done
    printf ' ]\n}\n'
  } >"$out/summary.json.tmp" && mv "$out/summary.json.tmp" "$out/summary.json"
}

wanted() {
  local o
  [ "${#only[@]}" -gt 0 ] || return 0
  for o in "${only[@]}"; do [[ $1 == "$o"* ]] && return 0; done
  return 1
}

record() { # NAME RESULT SECONDS COMMAND
  names+=("$1") results+=("$2") seconds+=("$3") commands+=("$4")
  summary
}

# skip NAME WHY
skip() {
  wanted "$1" || return 0
  if [ $list = 1 ]; then printf '%-44s skipped: %s\n' "$1" "$2"; return; fi
  printf '%-44s skipped: %s\n' "$1" "$2"
  record "$1" "skipped: $2" 0 ""
}

# step NAME LIMIT COMMAND...: runs it with a limit in seconds; its output goes to NAME.log, behind a head with its name,
# limit and command.
step() {
  local name=$1 limit=$2 start=$SECONDS status verdict skipped note=
  shift 2
  wanted "$name" || return 0
  if [ $list = 1 ]; then printf '%-44s %4d s\n' "$name" "$limit"; return; fi
  if [ -n "${GOCCL_BENCH_SECONDS-}" ]; then
    local left=$((GOCCL_BENCH_SECONDS - SECONDS))
    if [ $left -le 2 ]; then
      bad=1
      printf '%-44s left out: GOCCL_BENCH_SECONDS is over\n' "$name"
      record "$name" "left out: no time" 0 "$*"
      return 0
    fi
    [ $left -ge "$limit" ] || limit=$left
  fi
  printf '# %s\n# commit %s, %s, %s\n' "${*//$work/.}" "$commit" "$machine" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
    >"$out/$name.log"
  timeout -k 10 "$limit" "$@" >>"$out/$name.log" 2>&1 </dev/null
  status=$?
  case $status in
    0) verdict=ok ;;
    124 | 137) verdict="timed out after ${limit}s" ;;
    *) verdict="failed ($status)" ;;
  esac
  [ "$verdict" = ok ] || bad=1
  record "$name" "$verdict" $((SECONDS - start)) "${*//$work/.}"
  skipped=$(grep -c -e '^ *--- SKIP' "$out/$name.log")
  [ "$skipped" = 0 ] || note="  $skipped tests skipped themselves"
  printf '%-44s %-22s %5ds%s\n' "$name" "$verdict" $((SECONDS - start)) "$note"
  [ "$verdict" = ok ] || tail -n 12 "$out/$name.log" | cut -c 1-200 | sed 's/^/    /'
}

at() { # NAME LIMIT FOLDER COMMAND...
  local name=$1 limit=$2 folder=$3
  shift 3
  step "$name" "$limit" bash -c 'cd "$1" && shift && exec "$@"' - "$folder" "$@"
}

perf() { # NAME LIMIT ARGUMENTS...: goccl perf, with its JSON
  local name=$1 limit=$2
  shift 2
  step "$name" "$limit" goccl perf "$@" --device $device -n "$n" --json "$out/$name.json"
}

# 3. The host. doctor fails where something is to be mended; that is a result, too.
step host.doctor 60 goccl doctor
step host.topo 60 bash -c 'goccl topo --json >"$1" && goccl topo' - "$out/topo.json"
step host.version 10 goccl version --json

# 4. Tests, each in its package's folder. Kernels that were compiled for the host are tested where there is no GPU.
for p in $(cat "$work/packages"); do
  name=${p//\//.}
  case $p in
    test/hosts) at test.hosts 300 "$work/$p" ./pkg.test -test.v -test.timeout 290s -test.run '^TestGPU' ;;
    test/faults | test/verdict) ;; # separate steps, below
    test/contract | test/gpu) at "test.${p#test/}" 400 "$work/$p" ./pkg.test -test.v -test.timeout 390s ;;
    *) at "test.$name" 300 "$work/$p" ./pkg.test -test.v -test.timeout 290s -test.skip '^TestKernel' ;;
  esac
done
order() { # NAME OVERLAP SEED
  at "$1" 120 "$work/test/gpu" env GOCCL_OVERLAP="$2" ./pkg.test -test.v -test.timeout 115s \
    -test.run '^TestGPUOrder' -order.operations "${GOCCL_ORDER_OPERATIONS:-100000}" -order.seed "$3"
  [ $list = 1 ] || [ ! -e "$out/$1.log" ] || ! wanted "$1" || grep '^order: ' "$out/$1.log"
}
if [ "$gpus" -lt 2 ]; then
  skip order "fewer than two GPUs"; skip link "fewer than two GPUs"; skip network "fewer than two GPUs"
else
  order order.overlap 1 1; order order.apart 0 2
  . "$work/bench/links.sh"
  . "$work/bench/network.sh"
fi
faults=$work/test/faults
at fault.goccl 200 "$faults" ./pkg.test -test.v -test.timeout 190s \
  -test.skip '^Test(GPUFaultsStop|GPUFaultsKill|Model|AStoppedRankWritesNothingLater)$'
at fault.survivors 60 "$faults" ./pkg.test -test.v -test.timeout 55s -test.run '^TestGPUFaults'
at fault.primitive 60 "$work/primitive" ./pkg.test -test.v -test.timeout 55s -test.run 'Kill|Abort'
at fault.executor 60 "$work/plan/executor" ./pkg.test -test.v -test.timeout 55s -test.run 'Absent|Abort'

# 5. Tutorials: as they are, and a process per rank.
for b in "$work"/bin/0*; do step "tutorial.$(basename "$b")" 120 "$b"; done
for b in "$work"/bin/0[2-6]-*; do
  ranks=$n
  case $b in */02-* | */03-*) ranks=2 ;; esac # a pair
  step "tutorial.processes.$(basename "$b")" 120 goccl run -n "$ranks" -- "$b"
done
[ "$gpus" -lt 2 ] || at cpp 590 "$work/capi/testdata/cpp" ./run_all.sh "$work/build" # programs in C++ with kernels
# 6. Primitives.
step primitives 200 primitives -device $device -json "$out/primitives.json"
step communicator 120 communicator -device $device -json "$out/communicator.json"

# 7. Right results. Processes of GPUs take seconds to start, so one set of them does as much as it can.
large=9M huge=1G
[ $device = cuda ] || large=100K huge=1M
timed="all_reduce all_gather reduce_scatter all_to_all all_to_all_v all_to_all_v_device broadcast reduce send_recv"
every="$timed gather scatter"
for c in $every; do
  perf "correct.$c" 200 $c -d all -o all --sizes 0,1,2,4,8,16,32,$((8 * n)),30011,$large -i 1 -c 1
  perf "correct.$c.odd" 120 $c -d all -o all --sizes 0,$((8 * n)),30011,$large -u 1 -i 1 -c 1
done
types=all && [ "${GOCCL_BENCH-}" != quick ] || types=float,bfloat16
perf correct.1G 590 all_reduce -d $types -o all --sizes $huge -i 1 -c 1 --out-of-place

# Large messages once more, around the ring and by streams.
if [ $device = cuda ]; then
  lines=all_reduce:ring,reduce:ring,broadcast:ring,all_gather:ring,reduce_scatter:ring
  for c in $every; do
    step "correct.large.$c" 120 env GOCCL_ALGO=$lines goccl perf $c -d float,bfloat16 -b 1M -e 256M -f 4 -i 20 -c 5 \
      --device cuda -n "$n" --json "$out/correct.large.$c.json"
  done
fi

# A sanitizer for every rank, because it does not follow child processes; few operations, because kernels are slow.
sanitizer=$(command -v compute-sanitizer || true)
for s in /usr/local/cuda/bin/compute-sanitizer /opt/nvidia/compute-sanitizer/compute-sanitizer; do
  [ -n "$sanitizer" ] || [ ! -x "$s" ] || sanitizer=$s
done
sanitized() { # NAME TOOL COLLECTIVE
  if [ $device = host ]; then
    skip "sanitizer.$1" "no GPU"
  elif [ -z "$sanitizer" ]; then
    skip "sanitizer.$1" "there is no compute-sanitizer"
  else
    step "sanitizer.$1" 60 goccl run -n 2 -- "$sanitizer" --tool "$2" --error-exitcode 99 \
      "$(command -v goccl)" perf "$3" --device cuda -b 1K -e 1M -f 32 -i 2 -c 1 --out-of-place --timeout 50s
  fi
}
sanitized memcheck memcheck all_reduce
sanitized memcheck.send_recv memcheck send_recv
sanitized racecheck racecheck all_reduce

# 8. Time, beside NCCL in the same run.
types=(float bfloat16) max=1G factor=4
if [ "${GOCCL_BENCH-}" = quick ]; then types=(bfloat16) max=64M factor=16; fi
if [ $device = host ]; then types=(float) max=64K beside=(); fi
for c in $timed; do
  for d in "${types[@]}"; do
    for mode in eager graph; do
      arguments=($c -d "$d" -b 1K -e $max -f $factor ${beside[@]+"${beside[@]}"} --plot "$out/perf.$c.$d.$mode.svg")
      if [ $mode = graph ]; then
        if [ $device = host ]; then skip "perf.$c.$d.graph" "the host device has no graphs"; continue; fi
        arguments+=(--graph auto)
      fi
      perf "perf.$c.$d.$mode" 200 "${arguments[@]}"
    done
  done
done

# 9. Plans: every built-in one, checked; then beside native kernels.
goccl plan list >"$work/plans.txt"
while read -r name _; do
  step "plan.run.$name" 60 goccl plan run "$name" -n "$n" --device $device --processes -b 1K,100K,1M
done <"$work/plans.txt"
plan_time() { # NAME COLLECTIVE PROGRAMS NATIVE ARGUMENTS...: PROGRAMS are name or name=instances
  local name=$1 c=$2 programs=$3 native=$4 p folder algorithms replicas
  shift 4
  wanted "$name" || return 0
  for instances in $instance_counts; do
    # All thread blocks are on the GPU at once.
    if [ $instances != default ] && [ $((blocks * instances)) -gt 128 ]; then continue; fi
    folder=$work/plans.$c.$instances algorithms=$native
    mkdir -p "$folder"
    for p in $programs; do
      replicas=() && [ $instances = default ] || replicas=(--instances "$instances")
      goccl plan build "$p" -n "$n" ${replicas[@]+"${replicas[@]}"} -o "$folder/$p.json" || return 0
      algorithms=${algorithms:+$algorithms,}$p
    done
    step "$name.instances$instances" 120 env GOCCL_PLAN_DIR="$folder" goccl perf "$c" --device $device -n "$n" \
      --algo "$algorithms" "$@" --json "$out/$name.instances$instances.json"
  done
}
instance_counts="default 4" blocks=$n # of an instance
if [ $device = cuda ]; then
  instance_counts="default 4 8 16 32"
  plan_time plan.time.all_reduce all_reduce "allreduce_oneshot_ll allreduce_twoshot_ll" \
    one_shot_ll,one_shot_ll128,two_shot_ll,two_shot_ll128 --out-of-place --graph auto -b 1K -e 1M -f 4
  plan_time plan.time.all_gather all_gather "allgather_direct" one_shot_ll128 --out-of-place -b 1M -e 1G -f 16
  instance_counts="default 32 64" blocks=2
  plan_time plan.time.all_gather_ring all_gather "allgather_ring" one_shot_ll128,ring --out-of-place -b 1M -e 1G -f 16
else
  plan_time plan.time.all_reduce all_reduce "allreduce_oneshot_ll allreduce_twoshot_ll" "" \
    --out-of-place -b 1K -e 64K -f 4
  skip plan.time.all_gather "no GPU"
fi

# 10. Python and PyTorch.
export PYTHONPATH=$work/python PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$work/shims"
[ -n "$python" ] && ln -sf "$python" "$work/shims/python"
if command -v torchrun >/dev/null || [ -z "$torch" ]; then :; else
  printf '#!/bin/sh\nexec "%s" -m torch.distributed.run "$@"\n' "$python" >"$work/shims/torchrun"
  chmod +x "$work/shims/torchrun"
fi
export PATH=$PATH:$work/shims
if [ -z "$python" ]; then
  skip python "no python3"
elif [ $device = host ]; then
  at python.import 30 "$work" "$python" -c 'import goccl; print(goccl.get_lib())'
  skip python.suite "no GPU"
elif [ -z "$torch" ]; then
  skip python.suite "python3 has no torch"
else
  at python.suite 590 "$work" bash python/tests/gpu/run.sh "$n"
fi
. "$work/bench/training.sh"
turns communicator.beside 150 communicator/run.py
. "$work/bench/overlap.sh"
for s in collectives expandable faults order ddp fsdp graph bf16 decode; do
  if [ $device = host ]; then
    skip "torch.$s" "no GPU"
  elif [ -z "$torch" ]; then
    skip "torch.$s" "python3 has no torch"
  else
    step "torch.$s" 240 env GOCCL_RANKS="$n" bash "$work/capi/testdata/torch/run_all.sh" "$out/torch.$s" \
      "$work/build/libnccl.so.2" "$s"
  fi
done
for s in moe channels watch; do . "$work/bench/$s.sh"; done

# 11. Inference, and nccl-tests.
. "$work/bench/inference.sh"
. "$work/bench/nccl_tests.sh"

# 12. The selection table that this machine would have.
if [ $device = host ]; then
  skip tune "no GPU"
else
  step tune 590 goccl tune --out "$out/table.json" --json "$out/tune.json"
fi

# 13. The end.
[ $list = 0 ] || exit 0
if [ "${#names[@]}" = 0 ]; then
  echo "no step is called ${only[*]}; $here_script -l lists them" >&2
  exit 2
fi
passed=0 skips=0
for r in "${results[@]}"; do
  case $r in ok) passed=$((passed + 1)) ;; skipped*) skips=$((skips + 1)) ;; esac
done
echo
echo "$passed of $((${#results[@]} - skips)) steps passed, $skips were skipped; logs, JSON and summary.json are in $out"
for i in "${!names[@]}"; do
  case ${results[$i]} in ok | skipped*) ;; *) printf '  %-44s %s\n' "${names[$i]}" "${results[$i]}" ;; esac
done
exit $bad
