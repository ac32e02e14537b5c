"""The driver: the real coordinator over an engine that is run by hand, in a process of its own."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING, Protocol, cast

from queryable_state.server.coordinator import Coordinator
from queryable_state.server.settings import CoordinatorSettings
from queryable_state.server.testing import InMemoryEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

JOB_NAME = "simulated"
SECRET = "simulated"


class Driving(Protocol):
    """What can be asked of the driver's process."""

    def describe(self) -> tuple[str, bytes, bytes, int]:
        """The coordinator's address, the ids of query and run, the process's pid."""
        ...

    def plan(self, batch_id: int) -> None:
        """A batch is planned."""
        ...

    def commit(self, batch_id: int) -> float:
        """A batch is committed; answers the seconds until every server was told."""
        ...

    def close(self) -> None:
        """Ends the coordinator; nobody is told."""
        ...


class Driver:
    """A `Driving`."""

    def __init__(self, executors: int) -> None:
        # What is lost with a killed server is what is asked for here, and no news.
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
            raise TimeoutError(f"batch {batch_id} is not settled after 60 s")
        return time.perf_counter() - began

    def close(self) -> None:
        self._coordinator.close()


class Cost:
    """CPU seconds of a process and seconds of the clock, from here on."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._cpu_s = _cpu_s(process)
        self._began = time.perf_counter()

    def cpu_s(self) -> float:
        """Used since."""
        return _cpu_s(self._process) - self._cpu_s

    def seconds(self) -> float:
        """Gone by since."""
        return time.perf_counter() - self._began


class _Processes(BaseManager):
    pass


_Processes.register("Driver", Driver, exposed=("describe", "plan", "commit", "close"))


@contextlib.contextmanager
def driver(executors: int) -> Iterator[Driving]:
    """A driver's process with one query and so many executors."""
    with _Processes(ctx=get_context("spawn")) as processes:
        driving = cast("Driving", processes.Driver(executors))  # type: ignore[attr-defined]
        try:
            yield driving
        finally:
            driving.close()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
