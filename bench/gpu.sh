#!/usr/bin/env bash
# Runs the GPU bundle (make gpu-bundle) on a machine with GPUs and no Go, and leaves logs and JSON in a folder.
#
#   gpu.sh DIR [STEP...]     all steps, or those whose name starts with one of STEP
#
# STEPs: host (doctor, topo), test, tutorial, correct, perf (perf.primitive: the programs of bench/), tune. A step that fails or runs into its time
# limit does not stop the others; a table ends the output, and the exit status tells whether every step passed.
#
# GOCCL_AGAINST=PATH   a libnccl.so.2 to measure beside (default: the one that pip installed, if there is one)
# GOCCL_BENCH=quick    fewer sizes and types
set -uo pipefail

if [ $# -lt 1 ]; then
  sed -n '2,12s/^# \{0,1\}//p' "$0"
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
only=("$@")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# No multicast, by anyone: a program that creates multicast objects can take the host's GPUs out of service for everyone.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1

# 1. Unpack.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -e "$here/goccl-gpu.tar.gz" ]; then
  tar -xzf "$here/goccl-gpu.tar.gz" -C "$work" || exit 1
elif command -v xz >/dev/null; then
  tar -xJf "$here/goccl-gpu.tar.xz" -C "$work" || exit 1
else
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/goccl-gpu.tar.xz" "$work" || exit 1
fi
export PATH=$work/bin:$PATH

# 2. Find what to measure against.
against=${GOCCL_AGAINST-}
if [ -z "${GOCCL_AGAINST+set}" ] && command -v python3 >/dev/null; then
  against=$(python3 -c 'import importlib.util as u
s = u.find_spec("nvidia.nccl")
print(next(iter(s.submodule_search_locations)) + "/lib/libnccl.so.2" if s else "")' 2>/dev/null)
fi
beside=()
[ -n "$against" ] && [ -e "$against" ] && beside=(--against "$against")

names=() results=() seconds=()
bad=0

# step NAME LIMIT COMMAND...: runs it with a limit in seconds; its output goes to NAME.log.
step() {
  local name=$1 limit=$2 wanted=1 start status
  shift 2
  if [ "${#only[@]}" -gt 0 ]; then
    wanted=0
    for o in "${only[@]}"; do [[ $name == "$o"* ]] && wanted=1; done
  fi
  [ $wanted = 1 ] || return 0
  start=$SECONDS
  timeout -k 10 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null
  status=$?
  local verdict=ok
  case $status in
    0) ;;
    124 | 137) verdict="timed out after ${limit}s" ;;
    *) verdict="failed ($status)" ;;
  esac
  [ "$verdict" = ok ] || bad=1
  names+=("$name") results+=("$verdict") seconds+=($((SECONDS - start)))
  local skipped note=
  skipped=$(grep -c -e '^ *--- SKIP' "$out/$name.log")
  [ "$skipped" = 0 ] || note="  $skipped tests skipped"
  printf '%-44s %-22s %5ds%s\n' "$name" "$verdict" $((SECONDS - start)) "$note"
  if [ "$verdict" != ok ]; then tail -n 12 "$out/$name.log" | sed 's/^/    /'; fi
}

# 3. The host.
step host.doctor 60 goccl doctor
step host.topo 60 bash -c 'goccl topo --json >"$1" && goccl topo' - "$out/topo.json"
step host.version 10 goccl version --json

# 4. Tests, each in a folder with its testdata.
for t in "$work"/tests/*/; do
  pkg=$(basename "$t")
  step "test.$pkg" 400 bash -c 'cd "$1" && ./pkg.test -test.v -test.timeout 390s' - "$t"
done

# 5. Tutorials and measurements of primitives.
for b in "$work"/examples/*; do
  [ -x "$b" ] && step "tutorial.$(basename "$b")" 120 "$b"
done
gpus=$(goccl topo --json | grep -c '"uuid"')
for b in "$work"/examples/0[2-6]-*; do # a process per rank
  [ -x "$b" ] || continue
  n=$gpus
  case $b in */02-* | */03-*) n=2 ;; esac # a pair
  step "tutorial.processes.$(basename "$b")" 120 goccl run -n "$n" -- "$b"
done
# Programs below bench/ that take -json FILE.
for b in "$work"/bench/*; do
  [ -x "$b" ] && step "perf.primitive.$(basename "$b")" 200 "$b" -json "$out/primitive.$(basename "$b").json"
done

# 6. Every type and operator, and sizes at the ends.
perf() { # NAME LIMIT ARGUMENTS...
  local name=$1 limit=$2
  shift 2
  step "$name" "$limit" goccl perf "$@" --device cuda --json "$out/$name.json"
}
perf correct.all_reduce.small 300 all_reduce -d all -o all -b 0 -e 20K -f 1000 -i 1 -c 1
perf correct.all_reduce.odd 120 all_reduce -d float,bfloat16 -b 999999 -e 999999 -i 1 -c 1 -u 1
perf correct.all_reduce.1G 200 all_reduce -d float,bfloat16 -b 1G -e 1G -i 1 -c 1
for c in all_gather reduce_scatter all_to_all all_to_all_v broadcast reduce gather scatter send_recv; do
  perf "correct.$c" 200 "$c" -d all -b 0 -e 3M -f 50 -i 1 -c 1
done

# 7. Time, beside NCCL in the same run.
types=(float bfloat16) max=1G factor=4
if [ "${GOCCL_BENCH-}" = quick ]; then types=(bfloat16) max=64M factor=16; fi
for c in all_reduce all_gather reduce_scatter all_to_all all_to_all_v broadcast reduce send_recv; do
  for d in "${types[@]}"; do
    perf "perf.$c.$d.eager" 200 "$c" -d "$d" -b 1K -e $max -f $factor ${beside[@]+"${beside[@]}"} --plot "$out/perf.$c.$d.eager.svg"
    perf "perf.$c.$d.graph" 200 "$c" -d "$d" -b 1K -e $max -f $factor --graph auto ${beside[@]+"${beside[@]}"} --plot "$out/perf.$c.$d.graph.svg"
  done
done

# 8. The selection table that this machine would have.
step tune 400 goccl tune --out "$out/table.json" --json "$out/tune.json"

# 9. The summary, for people and for programs.
{
  echo "["
  for i in "${!names[@]}"; do
    printf '%s {"step": "%s", "result": "%s", "seconds": %d}\n' "$([ "$i" = 0 ] || echo ,)" "${names[$i]}" "${results[$i]}" "${seconds[$i]}"
  done
  echo "]"
} >"$out/summary.json"
echo
passed=0
for r in ${results[@]+"${results[@]}"}; do [ "$r" = ok ] && passed=$((passed + 1)); done
echo "$passed of ${#results[@]} steps passed; logs and JSON are in $out"
for i in "${!names[@]}"; do
  [ "${results[$i]}" = ok ] || printf '  %-44s %s\n' "${names[$i]}" "${results[$i]}"
done
exit $bad
