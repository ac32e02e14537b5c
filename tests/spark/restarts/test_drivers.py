"""Programs that end, or are killed, and are started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.killed_programs import temporary_files_in
from tests.spark.functions import READINGS
from tests.waiting import until

if TYPE_CHECKING:
    from tests.spark.conftest import MakeFeed

PROGRAM = Path(__file__).with_name("durable_program.py")
BATCHES = 8
ROWS = [{"sensor": name, "temperature": 1.0} for name in ("a", "b", "b")]


def program(source: Path, state: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(source), str(state)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **temporary_files_in(state.parent / "tmp")},
        text=True,
        start_new_session=True,
    )


def result_of(started: subprocess.Popen[str]) -> dict[str, object]:
    output, errors = started.communicate(timeout=120)
    lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
    assert lines, errors[-3000:]
    found: dict[str, object] = json.loads(lines[0].removeprefix("RESULT "))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_driver_killed_mid_run_and_started_again_has_counted_all_once(
    feed: MakeFeed, tmp_path: Path
) -> None:
    """SIGKILL takes the driver and its JVM in the same moment; the servers end with the JVM."""
    source = feed(READINGS)
    for _ in range(BATCHES):
        source.add(*ROWS)
    state = tmp_path / "state"
    commits = state / "counting%20readings" / "spark" / "commits"
    first = program(source._folder, state)
    try:
        until(lambda: (commits / "2").exists() or first.poll() is not None, timeout_s=120)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
    assert (commits / "2").exists()
    source.add(*ROWS, {"sensor": "c", "temperature": 1.0})
    found = result_of(program(source._folder, state))
    # A file that Spark had listed, but not planned yet, goes into one batch with the next.
    last = max(int(entry.name) for entry in commits.iterdir() if entry.name.isdigit())
    assert last in (BATCHES - 1, BATCHES)
    assert found == {"counts": [BATCHES + 1, 2 * (BATCHES + 1), 1], "batch": last}
