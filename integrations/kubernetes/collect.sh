#!/bin/bash
# Copies results from the nodes of a Kubernetes cluster to DIR/NODE/RUN:
#
#   collect.sh DIR RESULTS [NODE...]
#   collect.sh farm watch              # runs of watch.yaml, from all nodes
#   collect.sh night qualify-x7k2p n1  # those of a Job, from a node
#
# RESULTS is the directory below /var/lib/punctual/kubernetes on the nodes. On each node in turn a pod is started,
# by collect.yaml, and deleted. Environment: READER, an image with a shell and tar (busybox:stable).
# Exit status: 1 if a node could not be read; a node without such results is none.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 's/^# \?//; 2,6p' "$0" >&2 && exit 64; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd) results=$2
shift 2
[[ $results != */* && $results != -* ]] || { echo "collect.sh: $results: expected the name of a directory" >&2 && exit 64; }
[ $# -gt 0 ] || mapfile -t all < <(kubectl get nodes -o name)
[ $# -gt 0 ] || set -- "${all[@]#node/}"
reader=${READER:-busybox:stable}

pod=
remove() {
    [ -z "$pod" ] || kubectl delete -n punctual --wait=false "$pod" >/dev/null
    pod=
}
trap remove EXIT
trap 'exit 130' INT TERM

collect() {
    local node=$1 patch ready=
    patch='[{"op": "replace", "path": "/spec/nodeName", "value": "'$node'"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "'$reader'"}]'
    pod=$(kubectl patch --local -f "$here/collect.yaml" --type=json -p "$patch" -o json |
        kubectl create -f - -o name) || return 1
    kubectl wait -n punctual --for=condition=Ready --timeout=120s "$pod" >/dev/null && ready=yes
    if [ -z "$ready" ]; then
        remove
        return 1
    fi
    copy "$node" || copy "$node" || return 1
    remove
}

# A stream of kubectl may lose its beginning: what has no end is read again.
copy() {
    local found
    found=$(kubectl exec -n punctual "$pod" -- sh -c 'ls /results && echo /end') || return 1
    [[ $found == *"/end" ]] || return 1
    grep -qxF "$results" <<<"$found" || return 0
    mkdir -p "$dir/$1"
    kubectl exec -n punctual "$pod" -- tar -C "/results/$results" -cf - . |
        tar -C "$dir/$1" --no-same-owner -xf -
}

status=0
for node in "$@"; do
    collect "$node" || { echo "collect.sh: $node could not be read" >&2 && status=1; }
    remove
done
exit "$status"
