#!/usr/bin/env bash
# Installs the charts on the cluster of up.sh, with the images of load.sh, and waits until the ShareCluster is ready.
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/env.sh"
docker exec "$NODE" sh -c "mkdir -p $DATA && chown 10001:10001 $DATA"
cd "$ROOT/charts"
helm upgrade --install sharemesh-crds sharemesh-crds
helm -n queues upgrade --install --create-namespace sharemesh sharemesh -f "$KIND/values-operator.yaml" --wait --timeout 180s
helm -n queues upgrade --install main sharemesh-cluster -f "$KIND/values-cluster.yaml"
kubectl -n queues wait sharecluster/main --for=condition=Ready --timeout=180s
kubectl -n queues get sharemesh
