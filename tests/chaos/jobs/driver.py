"""The driver of a round as the harness sees it: a process that is killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.processes import is_alive, kill, until
from tests.killed_programs import temporary_files_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.clusters import Cluster

REPOSITORY = Path(__file__).parents[3]
START_S = 300.0


@dataclass(frozen=True)
class RunningDriver:
    """One life of the driver."""

    pid: int
    jvm_pid: int
    application_id: str


class Driver:
    """Starts `job.py`, and starts it again with the same arguments whenever it has ended."""

    def __init__(self, folder: Path, cluster: Cluster, arguments: Sequence[str]) -> None:
        self._folder = folder
        self._cluster = cluster
        self._arguments = list(arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._told = folder / "driver.json"
        self.starts = 0
        self.failures: list[str] = []
        """How lives ended that nobody ended: the end of each log."""

    @property
    def log(self) -> Path:
        """Of the newest life."""
        return self._folder / f"driver-{self.starts}.log"

    def start(self, *more: str) -> None:
        """Starts it, with `more` arguments this time; returns at once."""
        self._told.unlink(missing_ok=True)
        self.starts += 1
        environment = {**os.environ, **self._cluster.environment}
        environment["PYTHONPATH"] = os.pathsep.join(
            path for path in (str(REPOSITORY), os.environ.get("PYTHONPATH")) if path
        )
        environment.update(temporary_files_in(self._folder / "tmp"))
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.jobs.job", *self._arguments, *more],
                cwd=self._folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def running(self) -> RunningDriver | None:
        """What runs now; None while it starts or is down."""
        try:
            told = RunningDriver(**json.loads(self._told.read_text()))
        except (OSError, ValueError):
            return None
        return told if is_alive(told.pid) and is_alive(told.jvm_pid) else None

    def has_ended(self) -> bool:
        """Whether its Python process has ended, or was never started."""
        return self._process is None or self._process.poll() is not None

    def keep_running(self) -> None:
        """Starts it again where it has ended."""
        if self.has_ended():
            self._note_failure()
            self.start()

    def wait_running(self) -> RunningDriver:
        """Returns once the job is started; starts the driver again where it ends before."""

        def runs() -> bool:
            self.keep_running()
            return self.running() is not None

        until(runs, START_S, f"the driver does not start (see {self.log})")
        running = self.running()
        assert running is not None
        return running

    def kill(self, *, python: bool, jvm: bool) -> None:
        """kill -9 of one or both of its processes; returns when all of it is gone."""
        running = self.running()
        process = self._process
        if process is None:
            return
        if running is None:
            # It is starting: the JVM is the child it has, if any.
            if process.poll() is None:
                kill(process.pid)
        else:
            kill(*([running.jvm_pid] if jvm else []), *([running.pid] if python else []))
        process.wait(60)
        self._process = None
        if running is not None:
            until(lambda: not is_alive(running.jvm_pid), 60, "the driver's JVM has not ended")

    def stop(self) -> None:
        """Tells it to end in order, and waits."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            self.failures.append(f"did not end within 60 s of SIGTERM (see {self.log})")
            kill(process.pid)
            process.wait()
            return
        if code:
            self._note_failure()

    def _note_failure(self) -> None:
        if self._process is not None and self.log.exists():
            tail = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            stamp = time.strftime("%H:%M:%S")
            self.failures.append(f"{stamp} {self.log.name}: {' '.join(tail)[:300]}")
