"""The driver process: the real coordinator over an engine that the benchmark controls."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING, Protocol, cast

from queryable_state.server.coordinator import Coordinator
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.testing import InMemoryEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

JOB_NAME = "simulated"
SECRET = "simulated"


class DriverHandle(Protocol):
    """The driver as the process of the servers calls it."""

    def describe(self) -> tuple[str, bytes, bytes, int]:
        """Address of the coordinator, ids of query and run, pid of the process."""
        ...

    def plan(self, batch_id: int) -> None:
        """Plans a batch."""
        ...

    def commit(self, batch_id: int) -> float:
        """Commits a batch; returns the seconds until every server has acknowledged it."""
        ...

    def close(self) -> None:
        """Stops the coordinator without notice to the servers."""
        ...


class Driver:
    """A coordinator with one query."""

    def __init__(self, executors: int) -> None:
        # Lost servers are part of the benchmark: their errors are not logged.
        logging.disable(logging.ERROR)
        self._engine = InMemoryEngine(executors=executors)
        self._query_id, self._run_id = self._engine.start(JOB_NAME)
        settings = CoordinatorSettings(strict=False, secret=SECRET, ports="0", stop_timeout_s=0.1)
        self._coordinator = Coordinator(self._engine, settings).start()

    def describe(self) -> tuple[str, bytes, bytes, int]:
        return self._coordinator.address, self._query_id, self._run_id, os.getpid()

    def plan(self, batch_id: int) -> None:
        self._engine.plan(self._query_id, batch_id)

    def commit(self, batch_id: int) -> float:
        began = time.perf_counter()
        self._engine.commit(self._query_id, batch_id)
        if not self._coordinator.settle(self._query_id, batch_id, 60.0):
            raise TimeoutError(f"batch {batch_id} is not acknowledged by all servers after 60 s")
        return time.perf_counter() - began

    def close(self) -> None:
        self._coordinator.close()


class Cost:
    """CPU seconds of a process and wall-clock seconds since construction."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._cpu_s = _cpu_s(process)
        self._began = time.perf_counter()

    def cpu_s(self) -> float:
        """CPU seconds since construction."""
        return _cpu_s(self._process) - self._cpu_s

    def seconds(self) -> float:
        """Wall-clock seconds since construction."""
        return time.perf_counter() - self._began


class _Processes(BaseManager):
    pass


_Processes.register("Driver", Driver, exposed=("describe", "plan", "commit", "close"))


@contextlib.contextmanager
def driver(executors: int) -> Iterator[DriverHandle]:
    """Starts a driver process with one query and some executors."""
    with _Processes(ctx=get_context("spawn")) as processes:
        handle = cast("DriverHandle", processes.Driver(executors))  # type: ignore[attr-defined]
        try:
            yield handle
        finally:
            handle.close()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
