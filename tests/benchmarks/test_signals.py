"""The end of a benchmark by a signal: no child process stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import psutil
import pytest
from tests.waiting import DEADLINE_S, until

pytestmark = pytest.mark.slow

QUERY = ("--keys", "100", "--parts", "hits", "--in-flight", "1", "--seconds", "60")


def descendants(process: psutil.Process, part: str) -> list[psutil.Process]:
    """The descendants of a process if one of them has `part` in its command line, else none."""
    children: list[psutil.Process] = process.children(recursive=True)
    for child in children:
        try:
            if part in " ".join(child.cmdline()):
                return children
        except psutil.NoSuchProcess:
            continue
    return []


def end_by_signal(number: signal.Signals, part: str, *command: str) -> list[psutil.Process]:
    """Ends a benchmark while a child with `part` in its command line runs.

    Returns the descendants that the signal left behind. Checks the exit code.
    """
    benchmark = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    started: dict[int, psutil.Process] = {}

    def runs() -> bool:
        assert benchmark.poll() is None, "the benchmark ended before the signal"
        process = psutil.Process(benchmark.pid)
        started.update({child.pid: child for child in descendants(process, part)})
        return bool(started)

    try:
        until(runs)
        if number is signal.SIGINT:
            os.killpg(benchmark.pid, number)  # as Ctrl-C in a terminal
        else:
            benchmark.send_signal(number)
        assert benchmark.wait(DEADLINE_S) == 128 + number
    finally:
        benchmark.kill()
        benchmark.wait()
    _, alive = psutil.wait_procs(list(started.values()), timeout=10)
    for process in alive:
        process.kill()
    return alive


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_query_benchmark_ends_redis(number: signal.Signals) -> None:
    command = ("benchmarks.query", "--peers", "redis", *QUERY)
    assert end_by_signal(number, "redis-server", *command) == []


def test_a_signal_to_the_runner_ends_the_children_of_its_program() -> None:
    command = ("benchmarks", "query", "--peers", "heap", *QUERY)
    part = "queryable_state.server.state_server"
    assert end_by_signal(signal.SIGTERM, part, *command) == []


def test_a_signal_to_a_synchronous_benchmark_ends_its_children() -> None:
    command = ("benchmarks.recovery", "--keys", "1000", "--parts", "slowdown", "--seconds", "60")
    part = "queryable_state.server.state_server"
    assert end_by_signal(signal.SIGTERM, part, *command) == []


def test_a_signal_to_the_capacity_benchmark_ends_its_loader() -> None:
    command = ("benchmarks.capacity", "--keys", "1000", "--backends", "heap", "--seconds", "60")
    part = "queryable_state.server.state_server"
    assert end_by_signal(signal.SIGTERM, part, *command) == []
