"""Checkpoints that are triggered on another thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.coordinator.drivers import QUERY, subtask_of
from tests.coordinator.writers import LONG_S, WritingDriver

from queryable_state.server.coordinator import JobConfig

FIRST, SECOND = subtask_of(0), subtask_of(1)


OFTEN = JobConfig(checkpoint_interval_ms=1)


def stable(job: WritingDriver) -> int:
    """What the servers may fold up to, as the next lease tells them."""
    told = {version.query_id: version for version in job.a.heartbeat().committed}
    job.b.heartbeat()
    return told[QUERY].stable_version


def in_background(job: WritingDriver, timeout_s: float = LONG_S) -> ThreadPoolExecutor:
    threads = ThreadPoolExecutor(1)
    threads.submit(job.coordinator.trigger_checkpoint, QUERY, timeout_s)
    return threads
