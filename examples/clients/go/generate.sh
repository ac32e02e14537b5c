#!/bin/sh
# Generates gen/ from the protos: protoc is that of the Python package grpcio-tools, the plugins are built by go.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
protos=${PROTOS:-"$here/../../../proto"}
package=queryablestate/example/gen/queryable_state/v1

export GOBIN="$here/bin"
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
mkdir -p "$here/gen"
mapping=
for file in "$protos"/queryable_state/v1/*.proto; do
    name=queryable_state/v1/${file##*/}
    mapping="$mapping --go_opt=M$name=$package --go-grpc_opt=M$name=$package"
done
# shellcheck disable=SC2086 # words
PATH="$GOBIN:$PATH" ${PYTHON:-python3} -m grpc_tools.protoc -I "$protos" \
    --go_out="$here/gen" --go_opt=paths=source_relative \
    --go-grpc_out="$here/gen" --go-grpc_opt=paths=source_relative $mapping \
    "$protos"/queryable_state/v1/*.proto
