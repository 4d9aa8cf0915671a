#!/bin/sh
# Spreads the worlds of experiments over the cores of one machine, or of several with GNU parallel's --sshloginfile.
# GNU parallel runs the shards if it is installed, otherwise xargs -P.
#
#     parallel.sh SHARDS OUT NAME|FILE... [OPTION OF rc3-lab sim run]...
#
# LAB is the command to run (default: rc3-lab). With several machines OUT must be on a shared file system.
set -eu
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
lab=${LAB:-rc3-lab}
shards=$1 out=$2
shift 2
if command -v parallel >/dev/null 2>&1; then
    seq "$shards" | parallel -q --halt now,fail=1 "$lab" sim run "$@" --jobs 1 --out "$out" --shard "{}/$shards"
else
    seq "$shards" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I '{}' \
        "$lab" sim run "$@" --jobs 1 --out "$out" --shard "{}/$shards"
fi
exec "$lab" sim merge "$out" --out "$out"
