#!/bin/sh
# Writes a zip of this package for `spark-submit --py-files`, pure Python only:
#
#   deploy/spark-submit/pack_py_files.sh OUTPUT.zip [PYTHON]
#
# The executors' Python must already have the packages with compiled modules that it imports.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
output=${1:?usage: pack_py_files.sh OUTPUT.zip [PYTHON]}
python=${2:-$root/.venv/bin/python}
case $output in
    *.zip) ;;
    *)
        echo "error: $output does not end with .zip: Spark puts no other archive on Python's path" >&2
        exit 2
        ;;
esac

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
    --target "$folder" "$root"
rm -rf "$folder/bin"
# Not a wheel under another name: Python before 3.13 imports namespace packages only from archives
# with an entry per folder, which wheels lack.
"$python" -c 'import shutil, sys; shutil.make_archive(sys.argv[1], "zip", sys.argv[2])' \
    "${output%.zip}" "$folder"
echo "packed $(du -h "$output" | cut -f1) into $output"
