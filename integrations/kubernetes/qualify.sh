#!/bin/bash
# Qualifies nodes of a Kubernetes cluster and collects the runs in DIR/NODE/POD:
#
#   qualify.sh DIR [SELECTOR] -- FLAGS...
#   qualify.sh night -- --deadline 100us -D 60
#   qualify.sh night node-role/rt=,zone=b -- --deadline 100us -D 60
#
# DIR is a new directory. The nodes are those that are Ready, take pods, and have the labels of SELECTOR. FLAGS are those
# of `punctual qualify`. qualify.yaml is the Job, to change what these don't set: IMAGE (localhost/punctual:0.1.0),
# CPUS and MEMORY of a pod (2, 1Gi), READER (an image with a shell and tar: busybox:stable).
#
# Kubernetes does not bind an index of a Job to a node: if a pod is killed, or must wait, the next may start on a node that
# has a run already. Nodes without a verdict are asked again by another Job, up to twice.
#
# Exit status: the most severe verdict, 2 FAIL, 4 INVALID, 3 INCONCLUSIVE, 0 PASS; 1 if a node has no verdict.
set -euo pipefail
usage() { sed -n 's/^# \?//; 2,6p' "$0" >&2 && exit 64; }
refuse() { echo "qualify.sh: $*" >&2 && exit 64; }
[ $# -ge 1 ] || usage
here=$(cd "$(dirname "$0")" && pwd)
dir=$1 selector=
shift
[ $# -eq 0 ] || [ "$1" = -- ] || { selector=$1 && shift; }
if [ $# -gt 0 ]; then
    [ "$1" = -- ] || usage
    shift
fi
[ ! -e "$dir" ] || refuse "$dir: exists already; name another directory"

json() {
    local text=${1//\\/\\\\}
    printf '"%s"' "${text//\"/\\\"}"
}

# Nodes that are Ready, not cordoned, and without a taint that keeps pods away.
# shellcheck disable=SC2016 # variables of the template
eligible='{{range .items}}{{$ready := ""}}{{range .status.conditions}}{{if eq .type "Ready"}}{{$ready = .status}}{{end}}{{end
    }}{{$away := .spec.unschedulable}}{{range .spec.taints}}{{if ne .effect "PreferNoSchedule"}}{{$away = true}}{{end}}{{end
    }}{{if and (eq $ready "True") (not $away)}}{{.metadata.name}}{{"\n"}}{{end}}{{end}}'
listed=$(kubectl get nodes -l "$selector" -o go-template="$eligible") || exit 1
[ -n "$listed" ] || refuse "no node${selector:+ with $selector} is ready and takes pods"
mapfile -t nodes <<<"$listed"

# shellcheck disable=SC2016 # Kubernetes expands it
args='"qualify", "--quiet", "--as-deployed", "-o", "/results/$(POD)"'
for flag in "$@"; do
    args+=", $(json "$flag")"
done
size="{\"cpu\": $(json "${CPUS:-2}"), \"memory\": $(json "${MEMORY:-1Gi}")}"

# Starts a Job on nodes, and prints its name.
start() {
    local node terms="" pod=/spec/template/spec patch
    for node in "$@"; do
        terms+="${terms:+, }{\"matchFields\": [{\"key\": \"metadata.name\", \"operator\": \"In\", \"values\": [$(json "$node")]}]}"
    done
    patch='[{"op": "replace", "path": "/spec/completions", "value": '$#'},
        {"op": "replace", "path": "/spec/parallelism", "value": '$#'},
        {"op": "add", "path": "'$pod'/affinity/nodeAffinity", "value":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ['$terms']}}},
        {"op": "replace", "path": "'$pod'/containers/0/image", "value": '$(json "${IMAGE:-localhost/punctual:0.1.0}")'},
        {"op": "replace", "path": "'$pod'/containers/0/resources", "value": {"requests": '$size', "limits": '$size'}},
        {"op": "replace", "path": "'$pod'/containers/0/args", "value": ['$args']}]'
    kubectl patch --local -f "$here/qualify.yaml" --type=json -p "$patch" -o json |
        kubectl create -f - -o jsonpath='{.metadata.name}'
}

ask() { kubectl get -n punctual "$@"; }

# Waits for the end of a Job. Complete: all PASS. Failed: some index has another verdict; all others have ended too.
await() {
    local now before=
    until ask "job/$1" -o jsonpath='{.status.conditions[?(@.status=="True")].type}' | grep -qwE 'Complete|Failed'; do
        now=$(ask "job/$1" -o jsonpath='{.status.active} of {.spec.completions} pods run')
        [ "$now" = "$before" ] || echo "qualify.sh: $now" >&2
        before=$now
        sleep 2
    done
}

# Notes the verdicts of a Job, of each node the last.
declare -A verdicts=() runs=()
note() {
    local node pod code word exit='.status.containerStatuses[0].state.terminated.exitCode'
    while IFS=$'\t' read -r node pod code; do
        case $code in
        0) word=PASS ;;
        2) word=FAIL ;;
        3) word=INCONCLUSIVE ;;
        4) word=INVALID ;;
        *) continue ;;
        esac
        verdicts[$node]=$word
        runs[$node]=$pod
    done < <(ask pods -l "batch.kubernetes.io/job-name=$1" --sort-by=.metadata.creationTimestamp \
        -o jsonpath='{range .items[*]}{.spec.nodeName}{"\t"}{.metadata.name}{"\t"}{'"$exit"'}{"\n"}{end}')
}

mkdir -p "$dir"
kubectl apply -f "$here/namespace.yaml" >/dev/null
job=
trap 'echo "qualify.sh: interrupted; to remove the Job: kubectl delete -n punctual job/$job" >&2; exit 130' INT TERM
jobs=() wanted=("${nodes[@]}")
while [ ${#jobs[@]} -lt 3 ] && [ ${#wanted[@]} -gt 0 ]; do
    job=$(start "${wanted[@]}")
    jobs+=("$job")
    echo "qualify.sh: Job $job: ${wanted[*]}" >&2
    await "$job"
    note "$job"
    # Wrong usage is wrong on all nodes.
    [ "$(ask "job/$job" -o jsonpath='{.status.conditions[?(@.type=="Failed")].reason}')" != PodFailurePolicy ] ||
        refuse "wrong usage: $(kubectl logs -n punctual "job/$job" 2>/dev/null | tail -n 1)"
    wanted=()
    for node in "${nodes[@]}"; do
        [ -n "${verdicts[$node]:-}" ] || wanted+=("$node")
    done
done

status=0 worst=0
row() { printf '%-24s %-13s %s\n' "$@"; }
row node verdict run
for node in "${nodes[@]}"; do
    # By severity.
    case ${verdicts[$node]:-} in
    PASS) rank=0 ;;
    INCONCLUSIVE) rank=1 ;;
    INVALID) rank=2 ;;
    FAIL) rank=3 ;;
    *) status=1 rank=0 ;;
    esac
    [ "$rank" -le "$worst" ] || worst=$rank
    row "$node" "${verdicts[$node]:-no verdict}" "${runs[$node]:-}"
    [ -z "${runs[$node]:-}" ] || kubectl logs -n punctual "${runs[$node]}" | sed 's/^/    /' || true
done

for job in "${jobs[@]}"; do
    "$here/collect.sh" "$dir" "$job" "${nodes[@]}" || status=1
done
echo "qualify.sh: runs: $dir/NODE/POD" >&2
codes=(0 3 4 2)
[ "$status" -ne 0 ] || status=${codes[worst]}
exit "$status"
