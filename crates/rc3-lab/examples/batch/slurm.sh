#!/bin/sh
# A Slurm array: one task for each shard. Submit it, and merge when all tasks are done:
#
#     array=$(sbatch --parsable --array=1-32 slurm.sh fig8)
#     sbatch --dependency=afterok:"$array" --wrap "rc3-lab sim merge results --out results"
#
# The merge names a missing shard. To run some again: SHARDS=32 sbatch --array=3,7 slurm.sh fig8
#
#SBATCH --job-name=rc3-lab
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH --time=04:00:00
set -eu
exec rc3-lab sim run "$@" --jobs 1 --out results \
    --shard "$SLURM_ARRAY_TASK_ID/${SHARDS:-$SLURM_ARRAY_TASK_COUNT}"
