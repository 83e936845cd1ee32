#!/usr/bin/env bash
# A real single-node Kubernetes: etcd, apiserver, controller-manager, scheduler,
# kube-proxy, CoreDNS, containerd and kubelet, all inside ONE set of PID, mount and
# network namespaces.  Ending that PID namespace's first process ends everything,
# pods and mounts with it.  The pods have no route out of this machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
export RUN DOWN=$here/down.sh
t0=$(date +%s%N); lap() { printf '%6d ms  %s\n' $(( ($(date +%s%N) - t0) / 1000000 )) "$*" >&2; }
[[ -s $RUN/init.pid ]] && kill -0 "$(<"$RUN/init.pid")" 2>/dev/null && { echo "already up: KUBECONFIG=$KUBECONFIG"; exit 0; }
[[ $(id -u) == 0 ]] || { echo "up.sh: needs root: it makes namespaces, a network link and cgroups" >&2; exit 1; }
unshare --fork --pid --mount --net --uts true 2>/dev/null && [[ -w /sys/fs/cgroup ]] ||
    { echo "up.sh: this machine lets root make no namespaces or cgroups: use a virtual machine or a privileged container" >&2; exit 1; }
[[ -f $BIN/.built ]] || { echo "up.sh: $BIN has no programs; run build.sh first" >&2; exit 1; }
"$here/down.sh" >/dev/null 2>&1 || true
mkdir -p "$RUN"/{pki,log,etcd,cni,kubelet}
if [[ -n ${SHAREMESH_NODE_OWNER-} ]]; then   # whose node this is; however that process ends, the node goes with it
    echo "$SHAREMESH_NODE_OWNER" > "$RUN/owner.pid"
    setsid bash -c 'echo $$ > "$RUN/watcher.pid"; for p in "$@"; do tail --pid="$p" -s 0.5 -f /dev/null; done; exec "$DOWN"' watcher "$SHAREMESH_NODE_OWNER" $$ \
        </dev/null >/dev/null 2>&1 9>&- &
fi

# --- certificates and kubeconfigs -------------------------------------------------
cd "$RUN/pki"
ec=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650)
rsa=(-newkey rsa:2048 -nodes -days 3650)     # for the admin: Spark's client takes a PKCS#8 key for RSA
openssl req -x509 "${ec[@]}" -keyout ca.key -out ca.crt -subj /CN=sharemesh-node-ca -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
openssl ecparam -genkey -name prime256v1 -noout -out sa.key; openssl ec -in sa.key -pubout -out sa.pub 2>/dev/null
cert() { # name subject [extensions...]
    local n=$1 s=$2 key=("${ec[@]}"); shift 2
    [[ $n == admin ]] && key=("${rsa[@]}")
    openssl req -x509 "${key[@]}" -CA ca.crt -CAkey ca.key -keyout "$n.key" -out "$n.crt" -subj "$s" -addext basicConstraints=CA:FALSE "$@" 2>/dev/null
}
conf() { # name subject: a client certificate and its kubeconfig, both self-contained
    cert "$1" "$2" -addext extendedKeyUsage=clientAuth
    cat > "../$1.conf" <<E
apiVersion: v1
kind: Config
current-context: sharemesh
clusters: [{name: sharemesh, cluster: {server: "https://$NODE_IP:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
contexts: [{name: sharemesh, context: {cluster: sharemesh, user: me, namespace: default}}]
users: [{name: me, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
E
}
cert apiserver /CN=kube-apiserver -addext extendedKeyUsage=serverAuth -addext "subjectAltName=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:${SVC_NET%.*}.1,IP:$NODE_IP"
cert apiserver-client /O=system:masters/CN=kube-apiserver-kubelet-client -addext extendedKeyUsage=clientAuth
cert aggregator /CN=aggregator -addext extendedKeyUsage=clientAuth
conf admin /O=system:masters/CN=admin
conf kcm /CN=system:kube-controller-manager
conf scheduler /CN=system:kube-scheduler
conf proxy /CN=system:kube-proxy
conf kubelet /O=system:nodes/CN=system:node:node
conf coredns /O=system:masters/CN=coredns
cd "$RUN"
lap certificates

# --- configuration ----------------------------------------------------------------
: > resolv.conf
cat > containerd.toml <<E
version = 2
root = "$CACHE/containerd"
state = "$RUN/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt"]
[grpc]
  address = "$SOCK"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true            # a machine without CAP_SYS_RESOURCE cannot lower the score; runc dies of it
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$RUN/cni"
E
cat > cni/10-pods.conflist <<E
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "hairpinMode": true, "ipMasq": false,
   "ipam": {"type": "host-local", "dataDir": "$RUN/ipam", "ranges": [[{"subnet": "$POD_NET"}]]}}]}
E
cat > kubelet.yaml <<E
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_IP
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$RUN/pki/ca.crt"}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
makeIPTablesUtilChains: false
containerRuntimeEndpoint: unix://$SOCK
podLogsDir: $RUN/pod-logs
clusterDNS: [$DNS_IP]
clusterDomain: cluster.local
resolvConf: $RUN/resolv.conf
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
volumePluginDir: $RUN/volume-plugins
E
# Who was denied what: requests of pods, not of Kubernetes itself; and when there were which rights.
cat > audit.yaml <<E
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
    resources: [{group: rbac.authorization.k8s.io, resources: [roles, rolebindings]}]
  - {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
  - {level: Metadata, userGroups: ["system:serviceaccounts"]}
  - {level: None}
E
cat > Corefile <<E
cluster.local:53 in-addr.arpa:53 {
    bind $NODE_IP
    errors
    ready $NODE_IP:8181
    kubernetes cluster.local in-addr.arpa {
        kubeconfig $RUN/coredns.conf sharemesh
        pods insecure
        ttl 1
    }
}
test.internal:53 {
    bind $NODE_IP
    hosts {
        $HOST_IP host.test.internal
    }
}
.:53 {
    bind $NODE_IP
    template ANY ANY . {
        rcode NXDOMAIN
    }
}
E

# --- the node ----------------------------------------------------------------------
for k in kernel/panic kernel/panic_on_oops vm/overcommit_memory; do echo "$k $(<"/proc/sys/$k")"; done > sysctl.before   # the kubelet sets these
printf '%s\n' /run/containerd /var/lib/cni /var/log/containers /var/log/pods /var/lib/kubelet > shadows
while read -r d; do [[ -d $d ]] || { mkdir -p "$d"; echo "$d" >> made.dirs; }; done < shadows
cat > init.sh <<'E'
#!/usr/bin/env bash
# PID 1 of the node.  $1 = the scripts' folder
. "$1/env.sh"
cd "$RUN"

mount --make-rshared /
# Folders that containerd, CNI and the kubelet write to wherever their own are: nothing of it reaches the machine.
while read -r d; do mkdir -p "$RUN/shadow$d"; mount --bind "$RUN/shadow$d" "$d"; done < shadows
mkdir -p pv /tmp/hostpath_pv; mount --bind pv /tmp/hostpath_pv      # where the in-tree provisioner makes volumes
ip link set lo up
while ! ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip addr add "$NODE_IP/24" dev eth0; ip link set eth0 up
ip route add "$SVC_NET" via "$HOST_IP"      # only so that the node's own calls to a service find a route before they are translated
echo 1 > /proc/sys/net/ipv4/ip_forward
run() { local n=$1; shift; ( exec </dev/null >>"log/$n.log" 2>&1; while :; do "$@"; echo "--- $n ended: $?"; sleep 1; done ) & }
run containerd containerd -c containerd.toml
run etcd "$BIN/etcd" --name node --data-dir etcd --unsafe-no-fsync --log-level warn --listen-client-urls "http://127.0.0.1:2379" --advertise-client-urls "http://127.0.0.1:2379" --listen-peer-urls http://127.0.0.1:2380
run apiserver "$BIN/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --advertise-address "$NODE_IP" --secure-port 6443 \
    --tls-cert-file pki/apiserver.crt --tls-private-key-file pki/apiserver.key --client-ca-file pki/ca.crt \
    --kubelet-client-certificate pki/apiserver-client.crt --kubelet-client-key pki/apiserver-client.key --kubelet-preferred-address-types InternalIP \
    --service-account-key-file pki/sa.pub --service-account-signing-key-file pki/sa.key --service-account-issuer https://kubernetes.default.svc.cluster.local \
    --audit-policy-file audit.yaml --audit-log-path log/audit.jsonl --audit-log-maxsize 200 \
    --service-cluster-ip-range "$SVC_NET" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
    --requestheader-client-ca-file pki/ca.crt --requestheader-allowed-names aggregator --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group --requestheader-extra-headers-prefix X-Remote-Extra- \
    --proxy-client-cert-file pki/aggregator.crt --proxy-client-key-file pki/aggregator.key
until kubectl --kubeconfig admin.conf get --raw /livez >/dev/null 2>&1; do sleep 0.1; done
echo "$(date +%s%N) apiserver" >> laps
run kubelet "$BIN/kubelet" --config kubelet.yaml --kubeconfig kubelet.conf --root-dir "$RUN/kubelet" --cert-dir "$RUN/kubelet-pki" --hostname-override node --node-ip "$NODE_IP" --v 2
run kcm "$BIN/kube-controller-manager" --kubeconfig kcm.conf --authentication-kubeconfig kcm.conf --authorization-kubeconfig kcm.conf --leader-elect=false --use-service-account-credentials --kube-api-qps 300 --kube-api-burst 600 \
    --service-account-private-key-file pki/sa.key --root-ca-file pki/ca.crt --cluster-signing-cert-file pki/ca.crt --cluster-signing-key-file pki/ca.key --cluster-cidr "$POD_NET" --enable-hostpath-provisioner --bind-address 127.0.0.1
run scheduler "$BIN/kube-scheduler" --kubeconfig scheduler.conf --authentication-kubeconfig scheduler.conf --authorization-kubeconfig scheduler.conf --leader-elect=false --bind-address 127.0.0.1
run proxy "$BIN/kube-proxy" --kubeconfig proxy.conf --proxy-mode "${PROXY_MODE:-nftables}" --cluster-cidr "$POD_NET" --hostname-override node --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0 --v 2
run coredns "$BIN/coredns" -conf Corefile
# A host-path volume is root's and fsGroup does not reach it: open each new one.  (No fork while nothing is new.)
declare -A open=(); exec {nap}<> <(:)
while :; do
    for d in pv/*/; do [[ -d $d && -z ${open[$d]-} ]] && chmod 0777 "$d" && open[$d]=1; done
    read -rt 0.2 -u "$nap"
done
E
setsid unshare --fork --kill-child --pid --mount --mount-proc --net --uts bash init.sh "$here" </dev/null >log/init.log 2>&1 &
outer=$!
until [[ -n ${init:=$(pgrep -P "$outer" 2>/dev/null || true)} ]]; do init=; sleep 0.02; done
echo "$init" > init.pid
ip link add "$LINK" type veth peer name eth0 netns "$init"
ip addr add "$HOST_IP/24" dev "$LINK"; ip link set "$LINK" up
ip route replace "$POD_NET" via "$NODE_IP"; ip route replace "$SVC_NET" via "$NODE_IP"

deadline=$(( SECONDS + ${UP_TIMEOUT:-120} ))
wait_for() { until "$@" >/dev/null 2>&1; do (( SECONDS < deadline )) || { echo "timed out: $*" >&2; tail -n 5 log/*.log >&2; exit 1; }; sleep 0.1; done; }
wait_for ctr_ version; lap containerd
(cd "$ROOT" && "$PYTHON" -m images pause --tag 1 --out "$RUN/images" >/dev/null)
ctr_ images import images/pause-1.tar >/dev/null; lap "pause image"
wait_for kubectl get --raw /readyz; lap apiserver
kubectl apply -f - >/dev/null <<E
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/host-path
reclaimPolicy: Delete
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec: {clusterIP: $DNS_IP, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-node, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [$NODE_IP], conditions: {ready: true}}]
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
E
lap "storage class, DNS service"
wait_for kubectl wait --for=condition=Ready node/node --timeout=1s; lap "node Ready"
wait_for kubectl get serviceaccount default; lap "default service account"
dns='import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.3)
n = b"".join(bytes([len(x)]) + x for x in b"kubernetes.default.svc.cluster.local".split(b"."))
s.sendto(b"\0\1\1\0\0\1\0\0\0\0\0\0" + n + b"\0\0\1\0\1", (sys.argv[1], 53)); d = s.recv(512)
sys.exit(d[3] & 15 or d[7] != 1)'
wait_for python3 -c "$dns" "$DNS_IP"; lap "DNS through its service"
echo "KUBECONFIG=$KUBECONFIG"
