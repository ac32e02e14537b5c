"""SIGKILL of driver, JVM and broker while numbers arrive: each is counted once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.kafka.topic_numbers import Numbers, counted
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka.conftest import Program, StartProgram

    from queryable_state.streaming.testing.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

KILLS = {"kafka": ("jvm", "broker", "driver", "broker"), "files": ("driver", "broker", "jvm")}
SPARK = {"kafka": "counting/spark", "files": "checkpoint"}
"""The folder of Spark's checkpoint in the folder for state, by sink."""


@pytest.mark.parametrize("sink", ["kafka", "files"])
def test_each_record_counts_once_over_kills(
    broker: KafkaBroker, program: StartProgram, sink: str
) -> None:
    """State and rows of a file sink have each number once; rows of a Kafka sink at least once."""
    broker.create_topic("numbers", 2)
    broker.create_topic("numbers-counted")
    chance = random.Random(15)
    running = program("--sink", sink)
    with Numbers(broker) as numbers:
        for kill in KILLS[sink]:
            running = goes_on(running, program, sink)
            # Anywhere in a batch.
            time.sleep(chance.uniform(0, 1))
            if kill == "broker":
                broker.kill()
                time.sleep(chance.uniform(0, 2))
                broker.start()
            else:
                os.kill(running.jvm if kill == "jvm" else running.pid, signal.SIGKILL)
                running.wait(60)
        running = goes_on(running, program, sink)
    running.kill()
    found = program("--sink", sink, "--finish").result()
    once = {(number, 1) for number in range(numbers.written)}
    assert found["state"] == {str(number): times for number, times in once}
    if sink == "files":
        assert Counter(map(tuple, found["emitted"])) == Counter(once)
    else:
        assert set(counted(broker, "numbers-counted")) == once


def goes_on(running: Program, program: StartProgram, sink: str) -> Program:
    """Waits for two batches more; a program that has ended is started again."""
    commits = running.state / SPARK[sink] / "commits"
    before = newest(commits)
    current = running

    def has_gone_on() -> bool:
        nonlocal current
        if not current.is_running:
            current = program("--sink", sink)
        return newest(commits) >= before + 2

    until(has_gone_on, timeout_s=180)
    return current


def newest(commits: Path) -> int:
    """The newest batch that Spark has committed; -1 if none."""
    if not commits.exists():
        return -1
    return max((int(each.name) for each in commits.iterdir() if each.name.isdigit()), default=-1)
