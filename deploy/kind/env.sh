# shellcheck shell=bash disable=SC2034
# What every script here reads; it ends the script in one sentence when something is missing.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
KIND=$ROOT/deploy/kind
CLUSTER=sharemesh
NODE=$CLUSTER-control-plane
TAG=e2e                                    # of the images that the cluster gets
DATA=/var/lib/sharemesh/main               # the data directory on the node; values-cluster.yaml says the same
PYTHON=${PYTHON:-$ROOT/.venv/bin/python}
export KUBECONFIG=$ROOT/build/kind/kubeconfig
export SHAREMESH_IMAGE_BUILDER=docker
instead='or run `make e2e`, which needs neither Docker nor kind'
declare -A from=(
    [docker]=https://docs.docker.com/engine/install [kind]=https://kind.sigs.k8s.io
    [kubectl]=https://kubernetes.io/docs/tasks/tools [helm]=https://helm.sh/docs/intro/install
)
for program in docker kind kubectl helm; do
    command -v "$program" >/dev/null || { echo "kind: $program is missing: install it (${from[$program]}), $instead" >&2; exit 1; }
done
docker info >/dev/null 2>&1 || { echo "kind: Docker does not answer (\`docker info\` says why): start it, $instead" >&2; exit 1; }
mkdir -p "${KUBECONFIG%/*}"
