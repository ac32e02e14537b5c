#!/bin/sh
# Makes grpcurl available to the tests: the one on PATH, else one built into .venv/bin by `go
# install`. Always ends with 0: without grpcurl the tests that need it are skipped and say so.
set -eu

version=v1.9.4

cd -- "$(dirname -- "$0")/.."

if command -v grpcurl >/dev/null 2>&1 || [ -x .venv/bin/grpcurl ]; then
    exit 0
fi
if ! command -v go >/dev/null 2>&1; then
    echo "grpcurl: not on PATH and no go to build it with; its tests will be skipped"
    exit 0
fi
echo "grpcurl: building $version with $(go version)"
# cgo is off so that no C compiler is needed.
if ! CGO_ENABLED=0 GOBIN="$PWD/.venv/bin" go install -ldflags "-X main.version=$version" \
    "github.com/fullstorydev/grpcurl/cmd/grpcurl@$version"; then
    echo "grpcurl: could not be built, see above; its tests will be skipped"
fi
