#!/usr/bin/env bash
# Brings image archives onto the node:  load.sh A.tar [B.tar ...];  without arguments it builds the images first.
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/env.sh"
if (( $# == 0 )); then
    (cd "$ROOT" && "$PYTHON" -m images --tag "$TAG")
    set -- "$ROOT"/build/images/{sharemesh,sharemesh-spark,etcd}-"$TAG".tar
fi
for archive in "$@"; do kind load image-archive "$archive" --name "$CLUSTER"; done
