"""The Python of Spark's workers: the driver's where nothing is set, and named where it is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("worker_python_program.py")


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_workers_run_the_drivers_python_and_one_without_the_package_is_named_first(
    tmp_path: Path,
) -> None:
    """As from cron: nothing is activated, and `python3` of PATH has no package at all."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH")
    }
    environment["PATH"] = f"{bare / 'bin'}:{environment['PATH']}"
    python = str(bare / "bin" / "python3")
    finished = subprocess.run(
        [sys.executable, str(PROGRAM), tmp_path, python],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    results = dict(
        line.removeprefix("RESULT ").split(": ", 1)
        for line in finished.stdout.splitlines()
        if line.startswith("RESULT ")
    )
    assert results.keys() == {"made here", "of the user", "tried again"}, finished.stderr[-3000:]
    assert results["made here"] == "ran"
    assert results["tried again"] == results["of the user"]
    for part in (
        python,
        "No module named",
        sys.executable,
        "PYSPARK_PYTHON",
        "spark.pyspark.python",
    ):
        assert part in results["of the user"]
