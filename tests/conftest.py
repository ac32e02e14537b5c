"""What every test runs with, started by `make test` or by pytest itself."""

from __future__ import annotations

import os
import sys

# Spark starts its Python workers with whatever python3 is on PATH unless told.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
