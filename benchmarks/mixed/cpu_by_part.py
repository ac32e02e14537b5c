"""CPU seconds and memory of the processes of one run, by their part in it."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MARK = "BENCHMARK_MIXED_RUN"
"""The environment variable that marks all child processes, redis and Spark included."""
PARTS = (
    "JVM",
    "Python workers",
    "state server",
    "web process",
    "redis-server",
    "driver's Python",
    "client",
)


def part_of(command: Sequence[str]) -> str:
    """The part of a process, by its command line."""
    line = " ".join(command)
    if command and command[0].endswith("java"):
        return "JVM"
    if "redis-server" in line:
        return "redis-server"
    if "benchmarks.soak" in line:
        return "client"
    if "queryable_state.server.web" in line:
        return "web process"
    if "queryable_state.server" in line:
        return "state server"
    return "driver's Python" if "benchmarks.mixed.job" in line else "Python workers"


def cpu_by_part(mark: str) -> Mapping[str, float]:
    """CPU seconds so far of this process, its children and all marked processes, by part."""

    def cpu_s(process: psutil.Process) -> float:
        times = process.cpu_times()
        return times.user + times.system

    return _by_part(mark, cpu_s)


def rss_by_part(mark: str) -> Mapping[str, float]:
    """Bytes of memory of the same processes, by part."""
    return _by_part(mark, lambda process: process.memory_info().rss)


def _by_part(mark: str, figure: Callable[[psutil.Process], float]) -> Mapping[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid == os.getpid():
                sums["client"] += figure(process)
            # redis-server overwrites its environment with its title.
            elif process.ppid() == os.getpid() or process.environ().get(MARK) == mark:
                sums[part_of(process.cmdline())] += figure(process)
    return sums
