#!/bin/sh
# Runs tests with another Python than that of .venv, on a clone of the committed tree:
#
#   scripts/test_python.sh 3.13 tests/wire tests/client
#
# Ends with 0, and says so, if the machine has no such Python.
set -eu

cd -- "$(dirname -- "$0")/.."
version=$1
shift

# Version managers put stubs on PATH that only print an error, and keep the interpreters elsewhere.
for python in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python; do
    if "$python" -c 'import ssl' >/dev/null 2>&1; then
        tree=$(mktemp -d)
        trap 'rm -rf "$tree"' EXIT
        git clone -q . "$tree"
        cd "$tree"
        PYTHON=$python scripts/setup.sh test
        scripts/run.sh python -m pytest -n 2 --dist loadscope "$@"
        exit
    fi
done
echo "no python$version on PATH or in ~/.pyenv: the tests with it are left out"
