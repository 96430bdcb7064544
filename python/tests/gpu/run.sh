#!/usr/bin/env bash
# Everything of the Python package that needs GPUs, on N of them (default: all). Needs the wheel (or PYTHONPATH=python
# and build/), torch and a libnvrtc.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
n=${1:-$(nvidia-smi -L | wc -l)}
# Multicast stays off: for torch and for NCCL too.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
status=0
job() {
	echo "== $*"
	timeout 300 torchrun --nproc_per_node="$n" "$@" || { status=1; echo "FAILED: $*"; }
}
for t in collectives algorithms backend exact overhead; do job python/tests/gpu/$t.py; done
for e in mesh 03_alltoallv default_allreduce dsl_allreduce native_allgather; do job python/examples/$e.py; done
for a in GOCCL CUDA; do job python/tests/gpu/symmetric.py $a; done
echo "== python/tests/gpu/elastic.py"
timeout 300 python python/tests/gpu/elastic.py --ranks $((n < 2 ? 2 : n)) || { status=1; echo "FAILED: elastic.py"; }
job python/tests/gpu/ddp_transformer.py goccl
job python/tests/gpu/ddp_transformer.py nccl
library=$(python -c 'import goccl; print(goccl.get_lib())')/libnccl.so.2
LD_PRELOAD=$library job python/tests/gpu/ddp_transformer.py nccl
exit $status
