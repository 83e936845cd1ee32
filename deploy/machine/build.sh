#!/usr/bin/env bash
# The programs of a Kubernetes node, built from the Go module proxy; what is there is not built again.
#   build.sh            the programs     (cold: 7 minutes of CPU or so; nothing changed: milliseconds)
#   build.sh packages   Debian's packages first (root)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
[[ ${1-} == packages ]] && "$here/packages.sh"
want=$({ cat "$here"/src/go.{mod,sum} "$here"/src/*/main.go; sed -n '/^export CGO_ENABLED/,$p' "$here/build.sh"; } | sha256sum)
[[ -f $BIN/.built && $(<"$BIN/.built") == "$want" ]] && { echo "programs are built: $BIN"; exit 0; }
command -v go >/dev/null || { echo "build.sh: needs Go 1.24 or newer (https://go.dev/dl)" >&2; exit 1; }
mkdir -p "$BIN/pause.d"
exec 9>"$CACHE/build.lock"; flock 9
[[ -f $BIN/.built && $(<"$BIN/.built") == "$want" ]] && exit 0
rm -f "$BIN/.built"
# Another CGO_ENABLED than in the last build compiles everything again, so it is not left to the shell.
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
cd "$here/src"
k8s=$(go list -m -f '{{.Version}}' k8s.io/kubernetes) helm=$(go list -m -f '{{.Version}}' helm.sh/helm/v4)
major=${k8s#v} minor=${major#*.}; major=${major%%.*} minor=${minor%%.*}
# Without these the server calls itself v0.0.0, and Helm takes every cluster for 1.20.
x="-s -w"
for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    x+=" -X $p.gitVersion=$k8s -X $p.gitMajor=$major -X $p.gitMinor=$minor -X $p.gitCommit=0 -X $p.gitTreeState=archive -X $p.buildDate=1970-01-01T00:00:00Z"
done
x+=" -X helm.sh/helm/v4/internal/version.version=$helm -X helm.sh/helm/v4/internal/version.kubeClientVersionMajor=$major -X helm.sh/helm/v4/internal/version.kubeClientVersionMinor=$minor"
for p in pkg/chart/common pkg/chart/v2/lint/rules internal/chart/v3/lint/rules; do
    x+=" -X helm.sh/helm/v4/$p.k8sVersionMajor=$major -X helm.sh/helm/v4/$p.k8sVersionMinor=$minor"
done
compile() { local s=$SECONDS; go build -trimpath -ldflags "$x" -o "$BIN/$1" "$2"; printf '%4d s  %s\n' $(( SECONDS - s )) "$1"; }
compile kube ./kube
for c in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet; do ln -sf kube "$BIN/$c"; done
compile etcd go.etcd.io/etcd/server/v3
compile etcdctl go.etcd.io/etcd/etcdctl/v3
compile etcdutl go.etcd.io/etcd/etcdutl/v3
compile coredns ./coredns
compile helm helm.sh/helm/v4/cmd/helm
compile pause.d/pause ./pause
echo "$want" > "$BIN/.built"
