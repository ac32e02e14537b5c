"""Where a round takes place: its folder, its processes, and how far the job is."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
from tests.chaos.history.batch_log import BatchLog, planned_files
from tests.chaos.jobs.workload import input_file
from tests.chaos.processes import executors_under, is_alive, until

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.chaos.checks.checker import Violation
    from tests.chaos.clusters import Cluster
    from tests.chaos.faults.relay import Relay
    from tests.chaos.faults.withdrawals import Loss
    from tests.chaos.jobs.driver import Driver

_EXECUTOR = re.compile(r"-(\d+)-\d+$")


@dataclass(frozen=True, order=True)
class StateServerProcess:
    """A state server that has told where it listens."""

    executor_pid: int
    pid: int
    query: str
    proxy: str
    backend: str

    def __str__(self) -> str:
        return f"server {self.pid} of executor {self.executor_pid}"


@dataclass(kw_only=True)
class Site:
    """What faults act on."""

    folder: Path
    cluster: Cluster
    driver: Driver
    relay: Relay
    chance: random.Random
    spark: Path
    """Spark's checkpoint location."""
    root: Path
    """The job's state root."""
    coordinator: str
    """HOST:PORT of the driver's coordinator, not of the relay."""
    lease_s: float
    """Lease and margin: after it a silent server is not an owner any more."""
    output: Path | None = None
    """Where the file sink writes; None: the round has none."""
    damaged_checkpoint: int = 0
    """The newest checkpoint a file of which was damaged."""
    losses: list[Loss] = field(default_factory=list)
    """Files of the newest batch that were lost."""
    violations: list[Violation] = field(default_factory=list)
    """What faults found to be wrong."""
    input_ends: int | None = None
    """This file is not written yet, nor any after it."""
    watch: Callable[[], None] = field(default=lambda: None)
    """Called while something is waited for: starts the driver again where it has ended."""

    @property
    def servers_folder(self) -> Path:
        """Where state servers have their folders."""
        return self.folder / "servers"

    def servers(self) -> list[StateServerProcess]:
        """The state servers that live, by executor."""
        found = []
        for path in self.servers_folder.glob("queryable-state-*/server.json"):
            try:
                told = json.loads(path.read_text())
                cwd = psutil.Process(told["pid"]).cwd()
            except (OSError, ValueError, psutil.Error):
                continue
            executor = _EXECUTOR.search(path.parent.name)
            if is_alive(told["pid"]) and cwd == str(path.parent) and executor is not None:
                found.append(
                    StateServerProcess(
                        int(executor[1]),
                        told["pid"],
                        told["query"],
                        told["proxy"],
                        told["backend"],
                    )
                )
        return sorted(found)

    def a_server(self) -> StateServerProcess:
        """One of the state servers, once there is one."""
        self.wait(self.servers, 60, "no state server is up")
        return self.chance.choice(self.servers())

    def executors(self) -> list[psutil.Process]:
        """The executors that live, by pid."""
        return executors_under(self.cluster.folder)

    def planned(self) -> int:
        """The newest batch of which Spark has fixed the input; -1: none."""
        return newest_batch(self.spark / "offsets")

    def planned_files(self) -> int:
        """How many files of the input are in planned batches."""
        return planned_files(self.spark)

    def batches(self) -> BatchLog:
        """The batches as Spark's log has them now."""
        return BatchLog(self.spark)

    def committed(self) -> int:
        """The newest batch Spark has committed; -1: none."""
        return newest_batch(self.spark / "commits")

    def committed_at(self) -> dict[int, float]:
        """When each batch was committed, in seconds since the epoch; as far as Spark keeps them."""
        return commit_times(self.spark / "commits")

    @contextlib.contextmanager
    def input_held_back(self, number: int) -> Iterator[None]:
        """Keeps a file of the input from the job, and those after it; it may not be planned yet.

        A commit that is withdrawn takes the offsets behind it along, but the source remembers the
        file it gave: with another one there, both would become one batch, in any order.
        """
        file = input_file(self.folder / "input", number)
        held = file.with_name(f".held-{number}")
        self.input_ends = number
        if file.exists():
            file.rename(held)
        try:
            yield
        finally:
            if held.exists():
                held.rename(file)
            self.input_ends = None

    def wait(self, condition: Callable[[], object], timeout_s: float, what: str) -> None:
        """Waits while the driver is kept running."""

        def holds() -> object:
            self.watch()
            return condition()

        until(holds, timeout_s, what)

    def wait_commits(self, count: int, timeout_s: float) -> None:
        """Waits until so many more batches than now are committed."""
        wanted = self.committed() + count
        self.wait(
            lambda: self.committed() >= wanted,
            timeout_s,
            f"batch {wanted} is not committed (newest {self.committed()})",
        )


def newest_batch(log: Path) -> int:
    """The greatest number among the files of one of Spark's logs; -1: there is none."""
    try:
        return max((int(p.name) for p in log.iterdir() if p.name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


def commit_times(log: Path) -> dict[int, float]:
    """When each batch of a log was written, in seconds since the epoch."""
    return {
        int(path.name): path.stat().st_mtime for path in log.glob("[0-9]*") if path.name.isdigit()
    }
