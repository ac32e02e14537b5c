"""What an application leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest


@pytest.mark.slow
def test_stopping_spark_ends_servers_and_threads(tmp_path: Path) -> None:
    """In local mode the JVM outlives spark.stop(), so the servers must be told."""
    mark = uuid.uuid4().hex
    finished = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("lifecycle_program.py")), mark, tmp_path],
        env={**os.environ, "LIFECYCLE_TEST": mark},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = [line for line in finished.stdout.splitlines() if line.startswith("LEFT ")]
    assert lines, finished.stderr[-3000:]
    left = json.loads(lines[0].removeprefix("LEFT "))
    assert left == {"started": 1, "servers": 0, "threads": [], "stores": []}
