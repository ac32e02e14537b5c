"""How long a newcomer waits: the jobs of the README against the demo, on the same cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("first_answers_program.py")

# Measured: 0.1 to 0.9.
AT_MOST = 2.0


def timed(jobs: str) -> dict[str, Any]:
    # `local[*]` would take all cores of the test machine.
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": "--master local[2,4] pyspark-shell"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), jobs],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (line,) = [each for each in done.stdout.splitlines() if each.startswith("REPORT ")]
    report: dict[str, Any] = json.loads(line.removeprefix("REPORT "))
    return report


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_jobs_of_the_readme_answer_as_soon_as_the_demo() -> None:
    """From `execute_async`, without any setting of Spark, to a value in each of their states."""
    demo = timed("demo")["temperature"]
    readme = timed("README")
    assert set(readme) == {"orders", "sensors", "maxima"}
    for name, job in readme.items():
        assert max(job["subtasks"]) <= 4, name
        assert job["seconds"] <= AT_MOST * demo["seconds"], (demo, readme)
