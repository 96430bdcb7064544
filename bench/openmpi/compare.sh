#!/usr/bin/env bash
# Measures goccl's host device beside OpenMPI: all-reduce of floats among processes of this machine, in turns, on the
# same sizes.
#
#   bench/openmpi/compare.sh DIR
#
# DIR gets comparison.json (every measurement, and what was measured on), table.md (times and ratios) and the raw
# output in turns.txt. The contenders are MPI_Allreduce over shared memory, `goccl perf all_reduce` (what a program
# gets that calls goccl) and `goccl plan run` of built-in programs. Each turn is a fresh start of all ranks, and every
# result is checked.
#
#   RANKS=8 SIZES="8 1024 ... 67108864" TURNS=3 PLANS="allreduce_oneshot_ll ..." BATCHES=5 BATCH_MS=50
#   GOCCL=path/to/goccl
#
# HOSTS=2 divides the ranks among HOSTS hosts of this machine (network namespaces; needs root). OpenMPI then uses TCP
# between them, and there are no plans.
set -euo pipefail

if [ $# -ne 1 ] || [[ $1 == -* ]]; then
  sed -n '2,15s/^# \{0,1\}//p' "$0"
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for tool in mpicc mpirun; do
  command -v $tool >/dev/null || {
    echo "compare.sh: $tool is missing: install OpenMPI (on Debian: apt-get install openmpi-bin libopenmpi-dev)" >&2
    exit 1
  }
done
command -v go >/dev/null || { echo "compare.sh: go is missing: it builds goccl and the table" >&2; exit 1; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ranks=${RANKS:-8}
read -ra sizes <<<"${SIZES:-8 1024 4096 16384 65536 262144 1048576 4194304 16777216 67108864}"
read -ra plans <<<"${PLANS:-allreduce_oneshot_ll allreduce_direct}"
turns=${TURNS:-3} batches=${BATCHES:-5} ms=${BATCH_MS:-50}

# 1. Build.
mpicc -O2 -o "$work/all_reduce" "$here/all_reduce.c"
goccl=${GOCCL:-$work/goccl}
[ -n "${GOCCL:-}" ] || (cd "$here/../.." && go build -o "$goccl" ./cmd/goccl)
(cd "$here/../.." && go build -o "$work/table" ./bench/openmpi/table)

# 2. Measure. OpenMPI is told to use shared memory alone, to accept more ranks than cores, and, as root, to run at all.
export OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader}
mpi=(mpirun --oversubscribe -np "$ranks")
[ "$(id -u)" != 0 ] || mpi+=(--allow-run-as-root)
perf=(perf all_reduce --device host --ranks "$ranks")
if [ "${HOSTS:-1}" = 1 ]; then
  perf+=(--processes)
else
  plans=() perf+=(--hosts "$HOSTS")
  ns=gocclmpi$$
  trap 'for i in $(seq 0 $((HOSTS - 1))) s; do ip netns del $ns$i; done; rm -rf "$work"' EXIT
  ip netns add ${ns}s
  ip -n ${ns}s link add switch type bridge
  ip -n ${ns}s link set switch up
  list=
  for i in $(seq 0 $((HOSTS - 1))); do
    ip netns add $ns$i
    ip -n ${ns}s link add port$i type veth peer name cable netns $ns$i
    ip -n ${ns}s link set port$i master switch up
    ip -n $ns$i addr add 10.208.0.$((i + 1))/24 dev cable
    ip -n $ns$i link set cable up
    ip -n $ns$i link set lo up
    list+=,10.208.0.$((i + 1)):$((ranks / HOSTS))
  done
  # What mpirun takes for ssh: it starts a daemon in the namespace of the address.
  cat >"$work/agent" <<END
#!/bin/sh
n=$ns\$((\${1##*.} - 1))
shift
exec ip netns exec \$n unshare --uts sh -c "hostname \$n; \$*"
END
  chmod +x "$work/agent"
  export OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_tcp_if_include=cable OMPI_MCA_oob_tcp_if_include=cable
  export OMPI_MCA_plm_rsh_agent="$work/agent" OMPI_MCA_pml=ob1
  mpi=(ip netns exec ${ns}0 unshare --uts sh -c "hostname ${ns}0; exec \"\$@\"" mpirun "${mpi[@]}" --host "${list#,}")
fi
: >"$out/turns.txt"
say() { echo "# $*" | tee -a "$out/turns.txt" >&2; }
for turn in $(seq "$turns"); do
  for size in "${sizes[@]}"; do
    say "turn $turn of $turns: $size bytes"
    iterations=$((size < 262144 ? 1000 : size < 8388608 ? 100 : 10)) # of a plan
    {
      "${mpi[@]}" "$work/all_reduce" -s "$size" -c "$batches" -t "$ms"
      "$goccl" "${perf[@]}" --out-of-place -b "$size" -e "$size" -c "$batches" -i $((iterations / 5)) \
        --json "$work/perf.json" >/dev/null
      "$work/table" row goccl <"$work/perf.json"
      for plan in "${plans[@]}"; do
        "$goccl" plan run "$plan" --device host --processes --ranks "$ranks" -b "$size" -i "$iterations" \
          2>"$work/refused" | "$work/table" row "$plan" ||
          grep -q "message size not accepted" "$work/refused" || { cat "$work/refused" >&2; exit 1; }
      done
    } >>"$out/turns.txt"
  done
done

# 3. Compare.
"$work/table" merge -ranks "$ranks" -dir "$out" -goccl "$("$goccl" version | head -1)" <"$out/turns.txt"
cat "$out/table.md"
