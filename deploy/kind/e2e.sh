#!/usr/bin/env bash
# The end-to-end suite on a cluster of its own, which goes when the suite ends:  e2e.sh [--only NAME]
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/env.sh"
cd "$ROOT"
if kind get clusters 2>/dev/null | grep -qx "$CLUSTER"; then
    echo "kind: a cluster $CLUSTER is up: end it with deploy/kind/down.sh, or use it: KUBECONFIG=$KUBECONFIG make e2e" >&2
    exit 1
fi
"${MAKE:-make}" -s setup
trap '"$KIND/down.sh"' EXIT
"$KIND/up.sh"
SHAREMESH_E2E_LOAD=$KIND/load.sh "$PYTHON" -m tests.e2e "$@"
