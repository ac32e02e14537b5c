#!/bin/sh
# Makes helm and compose-go's checker available to `make check-deploy`: built by `go install` into
# .venv/bin, unless PATH has a helm. Ends with 0 without Go: the checks that need them are left out
# and say so.
set -eu

helm=v3.18.6
compose=v2.9.0

cd -- "$(dirname -- "$0")/.."

# Builds a command of a module without cgo, so that no C compiler is needed.
build() {
    name=$1 package=$2 version=$3
    if ! command -v go >/dev/null 2>&1; then
        echo "$name: no go to build it with; its checks will be left out"
        return
    fi
    echo "$name: building $version with $(go version)"
    folder=$(mktemp -d)
    if CGO_ENABLED=0 GOBIN="$folder" go install "$package@$version" >"$folder/log" 2>&1; then
        mv "$folder/$(basename "$package")" ".venv/bin/$name"
    else
        cat "$folder/log"
        echo "$name: could not be built, see above; its checks will be left out"
    fi
    rm -rf "$folder"
}

if ! command -v helm >/dev/null 2>&1 && [ ! -x .venv/bin/helm ]; then
    build helm helm.sh/helm/v3/cmd/helm "$helm"
fi
[ -x .venv/bin/compose-go ] || build compose-go github.com/compose-spec/compose-go/v2/cmd "$compose"
