#!/usr/bin/env bash
# Bring image archives onto the node:  load.sh A.tar [B.tar ...]
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/env.sh"
for archive in "$@"; do ctr_ images import "$archive" | sed 's/ (sha256.*//'; done
