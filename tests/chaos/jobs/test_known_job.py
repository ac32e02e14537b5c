"""Random questions to a job in this process, whose every answer is known."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.chaos.checks.checker import check_reads
from tests.chaos.checks.reads import Mode, What
from tests.chaos.jobs.known_job import MOVES, KnownJob

from queryable_state.server.testing import InMemoryEngine
from queryable_state.server.testing.cluster import InProcessCluster

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow

BACKENDS = ["rocksdb", "heap"]
UNTIMED = set(What) - {What.WINDOW, What.WINDOWS, What.TIMERS}
"""The job writes plain states."""


def judge(job: KnownJob, *, calm: Sequence[tuple[float, float]] = ()) -> None:
    """Fails with what is wrong, and when too little was asked to tell."""
    violations = check_reads(job.history, job.reads, job.committed_at, job.newest, calm=calm)
    assert not violations, "\n".join([f"seed {job.seed}", *map(str, violations[:10])])
    answered = [read for read in job.reads if not read.refused]
    assert {read.what for read in answered} == UNTIMED
    assert {read.mode for read in answered} == set(Mode)
    assert any(read.cut for read in answered)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_answers_are_right_and_nothing_is_refused_while_batches_commit(
    backend: str, tmp_path: Path
) -> None:
    job = KnownJob(seed=7)
    async with InProcessCluster(tmp_path, servers=2, lease_ms=20_000, backend=backend) as cluster:
        job.start(cluster)
        await job.run(6)
        async with job.asking(timeout_s=30):
            for _ in range(30):
                await job.seal()
                await job.asked(10)
                await job.commit()
                await job.asked(10)
    judge(job, calm=[(0.0, float("inf"))])


@pytest.mark.parametrize("backend", BACKENDS)
async def test_answers_are_right_while_servers_come_and_go(backend: str, tmp_path: Path) -> None:
    """Killed or stopped, before and after the seal; refusals are allowed, wrong answers are not."""
    job = KnownJob(seed=11)
    async with InProcessCluster(tmp_path, servers=2, lease_ms=1_500, backend=backend) as cluster:
        job.start(cluster)
        await job.run(6)
        async with job.asking():
            for move in job.chance.sample([*MOVES], len(MOVES)):
                await job.run(2)
                await job.asked(20)
                await MOVES[move](job)
                await job.run()
                await job.asked(20)
    judge(job)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_answers_are_right_after_everything_ended_and_began_again(
    backend: str, tmp_path: Path
) -> None:
    """Before the next batch, too, though no task has asked for anything."""
    job, engine = KnownJob(seed=13), InMemoryEngine()
    cluster = InProcessCluster(tmp_path, servers=2, engine=engine, backend=backend)
    async with cluster:
        job.start(cluster)
        await job.run(8)
        async with job.asking():
            await job.asked(50)
            await job.checkpoint()
            await job.run(3)
            await job.asked(50)
    cluster = InProcessCluster(tmp_path, servers=3, engine=engine, backend=backend)
    async with cluster:
        job.start(cluster)
        await job.recover()
        began = time.time()
        async with job.asking():
            await job.asked(150)
            recovered = time.time()
            await job.run(5)
            await job.asked(50)
    judge(job)
    idle = [read for read in job.reads if began < read.started and read.ended < recovered]
    assert {read.what for read in idle if not read.refused} == UNTIMED
