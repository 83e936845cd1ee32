# shellcheck shell=bash disable=SC2034
# Where the node's things are; every script here reads this.
CACHE=${SHAREMESH_CACHE:-$HOME/.cache/sharemesh}   # kept between runs: programs, image layers, the node's image store
BIN=$CACHE/bin
RUN=${SHAREMESH_NODE_RUN:-$CACHE/run}              # one cluster's state; gone after down.sh
SOCK=$RUN/containerd.sock
NODE_IP=10.200.0.2 HOST_IP=10.200.0.1 POD_NET=10.244.0.0/16 SVC_NET=10.96.0.0/16 DNS_IP=10.96.0.10
LINK=shm-host                                      # the machine's end of the cable to the node
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PYTHON=${PYTHON:-$ROOT/.venv/bin/python}; [[ -x $PYTHON ]] || PYTHON=python3
ctr_() { ctr -a "$SOCK" -n k8s.io "$@"; }
export KUBECONFIG=$RUN/admin.conf
