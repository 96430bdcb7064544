#!/usr/bin/env bash
# A job of Slurm on goccl: a task for each GPU. `sbatch examples/cluster/slurm.sh python train.py`
#SBATCH --job-name=goccl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
set -euo pipefail

# All ranks meet at the first host. The port differs from job to job, and the secret keeps strangers out.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
GOCCL_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export MASTER_ADDR MASTER_PORT GOCCL_SECRET

srun --kill-on-bad-exit=1 "$@"
