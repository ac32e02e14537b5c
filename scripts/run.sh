#!/bin/sh
# Runs a command with the tools of .venv and the Java found or installed by `make setup`:
#   scripts/run.sh python examples/flights.py --help
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

JAVA_HOME=$("$root/scripts/java_home.sh") || {
    echo "error: no Java 17 or newer; run: make setup" >&2
    exit 1
}
export JAVA_HOME
export PATH="$root/.venv/bin:$PATH"
# Spark starts its Python workers with whatever python3 is on PATH unless told.
export PYSPARK_PYTHON="$root/.venv/bin/python"
export PYSPARK_DRIVER_PYTHON="$PYSPARK_PYTHON"
# All processes are on this machine, whose host name may resolve to nothing or to a VPN's address.
export SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}"
# Another Spark's jars would be started in place of those of .venv.
unset SPARK_HOME
exec "$@"
