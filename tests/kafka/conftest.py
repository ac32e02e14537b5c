"""A broker for each test, and programs that read from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from tests.killed_programs import temporary_files_in

from queryable_state.streaming.testing.kafka import (
    JarsUnavailableError,
    KafkaBroker,
    connector_jars,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(__file__).with_name("counting_program.py")
_RESULT_S = 300.0


class StartProgram(Protocol):
    def __call__(self, *options: str) -> Program: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/kafka/" in item.path.as_posix():
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def jars() -> None:
    """Skips the test if the jars are not here and cannot be downloaded."""
    try:
        connector_jars()
        KafkaBroker(Path("unused"))
    except JarsUnavailableError as problem:
        pytest.skip(str(problem))


@pytest.fixture
def broker(jars: None, tmp_path: Path) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path / "kafka") as running:
        yield running


class Program:
    """A running `counting_program.py`."""

    def __init__(self, broker: KafkaBroker, folder: Path, *options: str) -> None:
        self.state = folder / "state"
        self._log = folder / "program.log"
        with self._log.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), broker.bootstrap_servers, str(self.state), *options],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **temporary_files_in(folder / "tmp")},
                text=True,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The driver."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def jvm(self) -> int:
        """The pid of the driver's JVM, which has started."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        (found,) = [
            int(each) for each in children if "java" in Path(f"/proc/{each}/comm").read_text()
        ]
        return found

    def started(self) -> tuple[str, str]:
        """Waits until the job runs; its id and the HOST:PORT of its proxy."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("STARTED "), self.log()
        _, job_id, proxy = line.split()
        return job_id, proxy

    def result(self) -> dict[str, Any]:
        """Waits for the end; what it printed."""
        output, _ = self._process.communicate(timeout=_RESULT_S)
        lines = [line for line in output.splitlines() if line.startswith("RESULT ")]
        assert lines, self.log()
        found: dict[str, Any] = json.loads(lines[0].removeprefix("RESULT "))
        return found

    def wait(self, timeout_s: float) -> int:
        """Waits for the end; the exit code."""
        return self._process.wait(timeout_s)

    def restarts(self) -> int:
        """How often the job was started again in the same driver."""
        return self._log.read_text().count("failed and is restarted")

    def log(self) -> str:
        """The end of what all programs of the test wrote to standard error."""
        return self._log.read_text()[-3000:]

    def kill(self) -> None:
        """Kills the driver and its JVM."""
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def program(broker: KafkaBroker, tmp_path: Path) -> Iterator[StartProgram]:
    """Starts programs, one after another; what still runs at the end is killed."""
    started: list[Program] = []

    def start(*options: str) -> Program:
        started.append(Program(broker, tmp_path, *options))
        return started[-1]

    yield start
    for each in started:
        each.kill()
