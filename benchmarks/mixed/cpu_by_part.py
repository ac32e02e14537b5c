"""CPU seconds of the processes of one run, by their part in it."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARK = "BENCHMARK_MIXED_RUN"
"""The environment variable that marks all child processes, redis and Spark included."""
PARTS = ("JVM", "Python workers", "state server", "redis-server", "driver's Python", "client")


def part_of(command: Sequence[str]) -> str:
    """The part of a process, by its command line."""
    line = " ".join(command)
    if command and command[0].endswith("java"):
        return "JVM"
    if "redis-server" in line:
        return "redis-server"
    if "queryable_state.server" in line:
        return "state server"
    return "driver's Python" if "benchmarks.mixed.job" in line else "Python workers"


def cpu_by_part(mark: str) -> Mapping[str, float]:
    """CPU seconds so far of this process, its children and all marked processes, by part."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid():
                part = "client"
            # redis-server overwrites its environment with its title.
            elif process.ppid() == os.getpid() or process.environ().get(MARK) == mark:
                part = part_of(process.cmdline())
            else:
                continue
            times = process.cpu_times()
        except psutil.Error:
            continue
        seconds[part] += times.user + times.system
    return seconds
