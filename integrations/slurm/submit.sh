#!/bin/bash
# Qualifies nodes of a Slurm cluster without `punctual fleet slurm`, from any host that has sbatch:
#
#   submit.sh DIR NODES REPEAT PUNCTUAL [SBATCH-OPTION...] -- FLAGS...
#   submit.sh /shared/night 'n[1-4]' 3 /shared/punctual --partition=rt -- --deadline 100us -D 60
#
# DIR is a new directory on storage that all nodes share. The runs are in DIR/.slurm/attempts/INDEX.RESTARTS, as
# qualify.sbatch says. Exit status: that of `sbatch --wait`, the highest of all tasks.
set -euo pipefail
[ $# -ge 4 ] || { sed -n 's/^# \?//; 2,5p' "$0" >&2 && exit 64; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir "$1"
dir=$(cd "$1" && pwd) nodes=$2 repeat=$3 punctual=$4
shift 4
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
done
[ $# -eq 0 ] || shift

mkdir -p "$dir/.slurm/attempts"
scontrol show hostnames "$nodes" | sort -u >"$dir/.slurm/nodes"
mapfile -t names <"$dir/.slurm/nodes"
tasks=$((${#names[@]} * repeat))

# Held: no task may start before it is pinned to its node.
sbatch --wait --parsable --hold --array=0-$((tasks - 1)) "${options[@]}" "$here/qualify.sbatch" \
    "$dir" "$punctual" "$@" >"$dir/.slurm/job" &
waiting=$!
until [ -s "$dir/.slurm/job" ]; do
    kill -0 "$waiting" 2>/dev/null || { wait "$waiting" && exit 1; }
    sleep 0.2
done
job=$(sed 's/;.*//' "$dir/.slurm/job")
trap 'scancel "$job"; exit 130' INT TERM
for ((index = 0; index < tasks; index++)); do
    scontrol update JobId="${job}_$index" ReqNodeList="${names[index % ${#names[@]}]}" ||
        { scancel "$job" && exit 1; }
done
scontrol release "$job"
wait "$waiting"
