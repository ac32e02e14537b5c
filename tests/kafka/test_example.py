"""The shipped example with its own broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.killed_programs import temporary_files_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka_sessions.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("jars"),
]


def test_sessions_of_the_example_equal_those_of_plain_python(tmp_path: Path) -> None:
    """The program compares them itself; its exit code is 1 if any differs."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **temporary_files_in(tmp_path)},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "all equal to plain Python" in done.stdout
