#!/bin/sh
# Packs a Python environment for `spark-submit --archives`: this package, what it imports on an
# executor, and packages of your own; without PySpark, which Spark's distribution brings.
#
#   deploy/spark-submit/pack_environment.sh OUTPUT.tar.gz [PACKAGE...]
#
# PYTHON names the Python (default: that of .venv). The archive links to it: every executor must
# have the same Python in the same folder, which PYTHON_PREFIX names if it differs from here.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
output=${1:?usage: pack_environment.sh OUTPUT.tar.gz [PACKAGE...]}
shift
python=${PYTHON:-$root/.venv/bin/python}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/environment"
# Of the [streaming] extra all but pyspark, whose 450 MB every executor has already.
"$folder/environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    --progress-bar off -c "$root/requirements.lock" "$root[server]" pandas pyarrow "$@"
# A venv of its own, because what packs is not to be packed. pip first: an older one knows no groups.
"$python" -m venv "$folder/tools"
for packages in pip "--group $root/pyproject.toml:pack"; do
    # shellcheck disable=SC2086 # two words
    "$folder/tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
        -c "$root/requirements.lock" $packages
done
"$folder/tools/bin/venv-pack" --quiet --force --prefix "$folder/environment" --output "$output" \
    ${PYTHON_PREFIX:+--python-prefix "$PYTHON_PREFIX"}
echo "packed $(du -h "$output" | cut -f1) into $output"
