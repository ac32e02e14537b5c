"""A driver that is gone, and a start from a damaged checkpoint, seen through a proxy that stays."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.killed_programs import temporary_files_in
from tests.spark.counting_jobs import readings
from tests.spark.functions import READINGS
from tests.spark.incidents.on_call import OnCall
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.spark.conftest import MakeFeed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("program.py")
JOB = "counting readings"
START_S = 180.0


@contextlib.contextmanager
def running(command: list[str], folder: Path, *ready: str) -> Iterator[list[str]]:
    """A process in a session of its own, killed at the end: the rest of its lines of readiness."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **temporary_files_in(folder)},
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        found = []
        for words in ready:
            line = next((line for line in process.stdout if line.startswith(words)), "")
            assert line, "the process has ended"
            found.append(line.removeprefix(words).strip())
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def damage_newest_checkpoint(root: Path) -> Path:
    """Changes bytes in the middle of the newest data file of the only checkpoint."""
    damaged = max(root.glob("shared/*"), key=lambda path: path.stat().st_mtime_ns)
    content = bytearray(damaged.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4] = bytes(255 - byte for byte in content[middle : middle + 4])
    damaged.write_bytes(content)
    return damaged


def test_the_driver_is_killed_and_the_job_starts_from_a_damaged_checkpoint(
    feed: MakeFeed, tmp_path: Path
) -> None:
    """`kill -9` of the driver, its JVM and its servers, then a start on another machine."""
    source, state = feed(READINGS), tmp_path / "state"
    source.add(*readings())
    root = state / "counting%20readings"

    def program(number: int) -> list[str]:
        # Another folder of the servers: no local copy replaces a damaged file.
        return [
            *(sys.executable, str(PROGRAM), str(source._folder), str(state)),
            str(tmp_path / f"servers-{number}"),
        ]

    with contextlib.ExitStack() as stack:
        first_run = stack.enter_context(contextlib.ExitStack())
        [driver] = first_run.enter_context(running(program(1), tmp_path / "tmp-1", "READY "))
        command = [sys.executable, "-m", "queryable_state.cli", "proxy", "--port=0"]
        proxy, web = stack.enter_context(
            running(
                [*command, "--frame-port=0", "--web-port=0", "--endpoint", str(state)],
                tmp_path / "proxy",
                "proxy at ",
                "web at ",
            )
        )
        person = OnCall(proxy, web)
        until(lambda: "last_completed" in person.job(JOB)["checkpoints"], timeout_s=START_S)
        person.sees_nothing(JOB)
        first_run.close()
        finding = person.sees(
            JOB,
            "DRIVER_UNREACHABLE",
            driver,
            "has not answered since",
            step="start the job again with the same checkpoint location",
        )
        assert "`queryable-state serve --checkpoint " in finding["next_step"]
        assert f"{root}` answers its state as of batch 0" in finding["next_step"]
        assert person.job(JOB)["info"]["health"] == "UNREACHABLE"
        [job] = person.rest("jobs")["jobs"]
        assert driver in job["problem"]
        assert "UNREACHABLE" in person.command("jobs")
        assert "the driver does not answer" in person.command("servers")

        damaged = damage_newest_checkpoint(root)
        source.add(*readings())
        stack.enter_context(running(program(2), tmp_path / "tmp-2"))

        def is_back() -> bool:
            with contextlib.suppress(urllib.error.HTTPError):
                return bool(person.job(JOB)["info"]["health"] != "UNREACHABLE")
            return False

        until(is_back, timeout_s=START_S)
        person.sees(
            JOB,
            "CHECKPOINT_DAMAGED",
            damaged.name,
            "its bytes fail their checksum",
            step="from a backup",
        )
