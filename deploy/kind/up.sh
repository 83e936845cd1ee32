#!/usr/bin/env bash
# A Kubernetes of one node in Docker; what is up stays up.
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/env.sh"
if kind get clusters 2>/dev/null | grep -qx "$CLUSTER"; then
    kind export kubeconfig --name "$CLUSTER" --kubeconfig "$KUBECONFIG"
else
    kind create cluster --name "$CLUSTER" --config "$KIND/cluster.yaml" --kubeconfig "$KUBECONFIG" --wait 180s
fi
echo "KUBECONFIG=$KUBECONFIG"
