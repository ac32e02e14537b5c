"""A stand-alone proxy that stays while its driver is killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.killed_programs import temporary_files_in
from tests.spark.functions import READINGS
from tests.waiting import until

from queryable_state.client import QueryableStateError
from queryable_state.client.blocking import QueryableStateClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.spark.conftest import MakeFeed

PROGRAM = Path(__file__).with_name("endless_program.py")
START_S = 120.0


@contextlib.contextmanager
def running(command: list[str], folder: Path, ready: str) -> Iterator[tuple[int, str]]:
    """A process in a session of its own, killed at the end: its id, and its line of readiness."""
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
        line = next((line for line in process.stdout if line.startswith(ready)), "")
        assert line, "the process has ended"
        yield process.pid, line.removeprefix(ready).strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_proxy_follows_a_driver_that_is_killed_and_started_again(
    feed: MakeFeed, tmp_path: Path
) -> None:
    """Clients wait within their deadline, no query fails, and no count goes back."""
    source, state = feed(READINGS), tmp_path / "state"
    source.add({"sensor": "a", "temperature": 1.0})
    driver = [sys.executable, str(PROGRAM), str(source._folder), str(state)]
    seen: list[int] = []
    failures: list[QueryableStateError] = []
    stop = threading.Event()

    def ask(address: str) -> None:
        with QueryableStateClient(addresses=address, timeout_s=START_S) as client:
            while not stop.is_set():
                try:
                    found = client.get_kv_state("counting readings", "count", "a")
                    assert found is not None
                    seen.append(found.value())
                except QueryableStateError as failure:
                    failures.append(failure)
                    return

    with contextlib.ExitStack() as stack:
        first_run = stack.enter_context(contextlib.ExitStack())
        first = first_run.enter_context(running(driver, tmp_path / "tmp", "READY "))
        endpoint = state / "_endpoint"
        before = json.loads(endpoint.read_text())
        assert before["coordinators"] == [first[1]]
        assert (state / "counting%20readings" / "_endpoint").exists()
        command = [sys.executable, "-m", "queryable_state.cli", "proxy", "--port", "0"]
        _, address = stack.enter_context(
            running(
                [*command, "--frame-port", "0", "--endpoint", str(state)],
                tmp_path / "proxy",
                "proxy at ",
            )
        )
        asking = threading.Thread(target=ask, args=(address,))
        asking.start()
        try:
            until(lambda: len(seen) > 10 or bool(failures), timeout_s=START_S)
            # The driver and its JVM; the state servers follow their JVM.
            first_run.close()
            source.add({"sensor": "a", "temperature": 1.0})
            stack.enter_context(running(driver, tmp_path / "tmp", "READY "))
            after = json.loads(endpoint.read_text())
            assert after["secret"] != before["secret"]
            until(lambda: (seen and seen[-1] == 2) or bool(failures), timeout_s=START_S)
        finally:
            stop.set()
            asking.join(START_S)
    assert failures == []
    assert seen == sorted(seen)
    assert {*seen} == {1, 2}
