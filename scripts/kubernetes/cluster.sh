# Sourced by scripts/kubernetes/test: a Kubernetes cluster of four nodes on this host.
# shellcheck shell=bash disable=SC2154
#
# Each node has network, host name and mounts of its own: /run, /var/lib and /var/log are empty there. Kubelet and
# containerd share the kernel, the CPUs and the control groups with the host. All files are in $work, all
# processes have it in their environment, and all end with the test.

scripts=$root/scripts/kubernetes
nodes=(n1 n2 n3 n4)
base=pk$$
control=$base-c
address=192.0.2.1

# Runs a command where a node's containerd runs.
in_node() {
    local pid
    pid=$(cat "$work/$1/containerd.pid") || return 1
    shift
    nsenter --target "$pid" --mount --uts --net -- "$@"
}

network() {
    local index host
    ip netns add "$control"
    ip -n "$control" link add br0 type bridge
    ip -n "$control" addr add "$address/24" dev br0
    ip -n "$control" link set br0 up
    ip -n "$control" link set lo up
    for index in 1 2 3 4; do
        host=$base-n$index
        ip netns add "$host"
        ip -n "$control" link add "v$index" type veth peer name eth0 netns "$host"
        ip -n "$control" link set "v$index" master br0 up
        ip -n "$host" addr add "192.0.2.1$index/24" dev eth0
        ip -n "$host" link set eth0 up
        ip -n "$host" link set lo up
        ip -n "$host" route add default via "$address"
    done
}

daemon() {
    local name=$1
    shift
    PUNCTUAL_CLUSTER=$work setsid "$@" >"$work/log/$name" 2>&1 </dev/null &
    disown
}

# until_true SECONDS WHAT COMMAND...
until_true() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { say "waited in vain: $what" && return 1; }
        sleep 0.5
    done
}

control_plane() {
    local token=punctual
    openssl genrsa -out "$work/account.key" 2048 2>/dev/null
    openssl rsa -in "$work/account.key" -pubout -out "$work/account.pub" 2>/dev/null
    echo "$token,admin,admin,system:masters" >"$work/tokens"
    cat >"$work/kubeconfig" <<END
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://$address:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
END
    # The scripts of integrations/kubernetes call kubectl.
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec ip netns exec %s %s "$@"\n' "$control" "$(command -v kubectl)" >"$work/bin/kubectl"
    chmod +x "$work/bin/kubectl"
    PATH=$work/bin:$PATH
    daemon etcd ip netns exec "$control" etcd --data-dir "$work/etcd" --unsafe-no-fsync \
        --listen-peer-urls http://127.0.0.1:2380
    daemon kube-apiserver ip netns exec "$control" kube-apiserver --etcd-servers=http://127.0.0.1:2379 \
        --bind-address="$address" --advertise-address="$address" --cert-dir="$work/certificates" \
        --token-auth-file="$work/tokens" --authorization-mode=AlwaysAllow --service-cluster-ip-range=198.51.100.0/24 \
        --service-account-issuer=https://test --service-account-key-file="$work/account.pub" \
        --service-account-signing-key-file="$work/account.key" --kubelet-preferred-address-types=InternalIP
    until_true 120 "the API server" kubectl get --raw /readyz
    daemon kube-controller-manager ip netns exec "$control" kube-controller-manager --kubeconfig="$work/kubeconfig" \
        --leader-elect=false --secure-port=0 --service-account-private-key-file="$work/account.key"
    daemon kube-scheduler ip netns exec "$control" kube-scheduler --kubeconfig="$work/kubeconfig" \
        --leader-elect=false --secure-port=0
}

# An image with one program: image NAME PROGRAM PATH.
image() {
    local name=$1 program=$2 path=$3 place=$work/image digest
    rm -rf "$place"
    mkdir -p "$place/root"
    install -D -m 755 "$program" "$place/root$path"
    mkdir "$place/root/proc" "$place/root/sys" "$place/root/dev" "$place/root/results"
    mkdir -m 1777 "$place/root/tmp"
    [ "$path" != /bin/busybox ] || for tool in sh sleep tar ls; do ln -s busybox "$place/root/bin/$tool"; done
    tar -C "$place/root" -cf "$place/layer.tar" .
    digest=$(sha256sum "$place/layer.tar" | cut -d' ' -f1)
    local entry="\"$path\""
    [ "$path" != /bin/busybox ] || entry='"/bin/sh"'
    cat >"$place/config.json" <<END
{"architecture": "$(dpkg --print-architecture)", "os": "linux",
 "config": {"Entrypoint": [$entry], "Env": ["PATH=/bin"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]}}
END
    echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$name\"], \"Layers\": [\"layer.tar\"]}]" >"$place/manifest.json"
    tar -C "$place" -cf "$work/$(basename "$path").tar" manifest.json config.json layer.tar
}

images() {
    echo 'int pause(void); int main(void) { for (;;) pause(); }' | gcc -static -x c -o "$work/pause" -
    # The project's own image, by the name that the manifests have.
    local said
    said=$(scripts/image)
    cp "${said%%: *}" "$work/punctual.tar"
    built=localhost/$(cut -d' ' -f2 <<<"$said" | tr -d ,)
    image localhost/pause:1 "$work/pause" /pause
    image localhost/busybox:1 "$(compgen -G "$place/debian/*/busybox" || compgen -G "$place/debian/usr/*/busybox")" /bin/busybox
}

# configure_node NODE BUDGET: the real-time budget of a container in microseconds of each second, or nothing.
#
# A kernel with CONFIG_RT_GROUP_SCHED refuses SCHED_FIFO in a control group of version 1 that has no budget, and
# Kubernetes can't ask for one. A wrapper of runc does, so that containers are as on other kernels, or with version 2.
# It also keeps the groups of one node apart from those of the others.
configure_node() {
    local node=$1 budget=$2 folder=$work/$1
    mkdir -p "$folder/cni" "$folder/results"
    local group=/sys/fs/cgroup/cpu/$base
    if [ -e /sys/fs/cgroup/cpu/cpu.rt_runtime_us ]; then
        # A group has at most what is left of its parent's.
        mkdir -p "$group/$node"
        [ "$(<"$group/cpu.rt_runtime_us")" -gt 0 ] || echo 900000 >"$group/cpu.rt_runtime_us"
        [ -z "$budget" ] || echo "$budget" >"$group/$node/cpu.rt_runtime_us"
    fi
    # All pods use the node's network. A kubelet without a configuration of networks is not ready.
    echo '{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}' >"$folder/cni/none.conflist"
    cat >"$folder/runc" <<END
#!/bin/sh
python3 "$scripts/groups.py" "/$base/$node" "${budget:-0}" "\$@"
exec runc "\$@"
END
    chmod +x "$folder/runc"
    cat >"$folder/containerd.toml" <<END
version = 2
root = "$folder/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.internal.v1.opt"]
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_tcp_service = true
  restrict_oom_score_adj = true
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "$folder/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "$folder/runc"
END
    cat >"$folder/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 0.0.0.0
readOnlyPort: 0
healthzPort: 0
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd.sock
evictionHard: {nodefs.available: "0%"}
resolvConf: ""
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 2s
END
}

start_node() {
    local node=$1 folder=$work/$1
    configure_node "$@"
    cat >"$folder/start" <<END
set -e
hostname $node
mount --make-rshared /
mount -t tmpfs none /run
mount -t tmpfs none /var/lib
mount -t tmpfs none /var/log
mkdir -p /var/lib/punctual/kubernetes
mount --bind $folder/results /var/lib/punctual/kubernetes
containerd --config $folder/containerd.toml >$work/log/containerd-$node 2>&1 &
echo \$! >$folder/containerd.pid
until [ -S /run/containerd.sock ]; do sleep 0.2; done
exec kubelet --config=$folder/kubelet.yaml --kubeconfig=$work/kubeconfig --hostname-override=$node \
    --node-ip=192.0.2.1${node#n} --root-dir=$folder/kubelet
END
    daemon "kubelet-$node" nsenter "--net=/run/netns/$base-$node" unshare --uts --mount sh "$folder/start"
}

load_images() {
    local node=$1 file
    for file in pause punctual busybox; do
        in_node "$node" ctr --address /run/containerd.sock -n k8s.io images import "$work/$file.tar" >>"$work/log/images" 2>&1 ||
            { say "$node: $file.tar can't be imported: $(tail -n 1 "$work/log/images")" && return 1; }
    done
    in_node "$node" ctr --address /run/containerd.sock -n k8s.io images tag "$built" localhost/punctual:0.1.0 >>"$work/log/images"
}

are_ready() {
    [ "$(kubectl get nodes --no-headers 2>/dev/null | awk '$2 == "Ready"' | wc -l)" -eq "${#nodes[@]}" ]
}

start_cluster() {
    mkdir -p "$work/log"
    network
    control_plane
    images
    local node
    for node in "${nodes[@]}"; do
        mkdir -p "$work/$node"
        # n4 is as Kubernetes leaves it.
        start_node "$node" "$([ "$node" = n4 ] || echo 250000)"
    done
    for node in "${nodes[@]}"; do
        until_true 60 "containerd of $node" in_node "$node" ctr --address /run/containerd.sock version
        load_images "$node"
    done
    until_true 120 "four nodes that are ready" are_ready
    until_true 60 "the default account" kubectl get -n default serviceaccount default
}

# Processes of this cluster: those that the test started, and those in the mounts of its nodes, as containers.
processes() {
    local file own
    own=$(readlink /proc/self/ns/mnt)
    for file in /proc/[0-9]*; do
        if grep -qs "PUNCTUAL_CLUSTER=$work" "$file/environ" ||
            { [ "$(readlink "$file/ns/mnt")" != "$own" ] && grep -qs "$work" "$file/mountinfo"; }; then
            basename "$file"
        fi
    done
}

stop_cluster() {
    local node process count
    for ((count = 0; count < 50; count++)); do
        mapfile -t all < <(processes | sort -u)
        [ ${#all[@]} -gt 0 ] || break
        for process in "${all[@]}"; do
            [ "$process" -eq $$ ] || kill -KILL "$process" 2>/dev/null || true
        done
        sleep 0.2
    done
    for node in c "${nodes[@]}"; do
        ip netns del "$base-$node" 2>/dev/null || true
    done
    # Control groups that containers leave.
    find /sys/fs/cgroup -depth -type d -path "*/$base*" -exec rmdir {} + 2>/dev/null || true
    rm -rf "$work"
}
