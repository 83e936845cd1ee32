#!/usr/bin/env bash
# Builds build/go/bin/consumer: stubs from protos/, then the program. Needs Go and `make setup`.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
export GOBIN=${GOBIN:-$root/build/go/bin}
mkdir -p "$GOBIN"
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.10
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1
names=()
for file in "$root"/protos/sharemesh/v1/*.proto; do
  name=sharemesh/v1/$(basename "$file")
  names+=("--go_opt=M$name=consumer/sharemesh/v1" "--go-grpc_opt=M$name=consumer/sharemesh/v1")
done
PATH=$GOBIN:$PATH "${PYTHON:-$root/.venv/bin/python}" -m grpc_tools.protoc -I"$root/protos" \
  --go_out=. --go_opt=module=consumer --go-grpc_out=. --go-grpc_opt=module=consumer \
  "${names[@]}" "$root"/protos/sharemesh/v1/*.proto
go build -o "$GOBIN/consumer" .
