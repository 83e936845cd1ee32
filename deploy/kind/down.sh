#!/usr/bin/env bash
# Takes the cluster away, with everything on it.
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/env.sh"
kind delete cluster --name "$CLUSTER" --kubeconfig "$KUBECONFIG"
