"""Timelines of durable jobs: a job that goes back, or begins from a savepoint, begins another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, driver
from tests.coordinator.roots.durable import run
from tests.coordinator.roots.test_restored_jobs import VERSION, savepoint

from queryable_state.wire.errors import JobError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.coordinator.drivers import Driver

    from queryable_state.internal.v1.checkpoint_pb2 import Timeline


def begun(job: Driver, batch: int, offsets: bytes | None = None) -> Timeline:
    """The timeline that servers get at the begin of a batch."""
    job.engine.plan(QUERY, batch, offsets=offsets)
    return job.peer().begin(QUERY, job.run_id, batch).timeline


def ended(timeline: Timeline) -> list[tuple[int, int]]:
    return [(each.first_batch, each.last_batch) for each in timeline.ended]


def test_a_job_that_goes_on_stays_in_its_timeline(tmp_path: Path) -> None:
    """Also if it replays the batch that was not committed."""
    with driver(tmp_path) as job:
        run(job, 0)
        run(job, 1)
        first = begun(job, 2)
    with driver(tmp_path) as job:
        assert begun(job, 2) == first
        assert first.id
        assert not first.ended


def test_a_job_that_is_set_back_begins_another_timeline(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        for batch in range(5):
            run(job, batch)
        first = begun(job, 5)
    with driver(tmp_path) as job:
        second = begun(job, 3, b"others")
        assert ended(second) == [(3, 4)]
        assert second.ended[0].id == first.id != second.id
        assert second.ended[0].ended_at_ms
        run(job, 3)
    with driver(tmp_path) as job:
        assert begun(job, 4) == second
    with driver(tmp_path) as job:
        third = begun(job, 2, b"others again")
        assert ended(third) == [(3, 4), (2, 3)]
        assert [each.id for each in third.ended] == [first.id, second.id]


def test_a_batch_whose_commit_was_lost_is_the_same_batch(tmp_path: Path) -> None:
    """Its offsets are there: it is replayed."""
    with driver(tmp_path) as job:
        for batch in range(3):
            run(job, batch)
        first = begun(job, 3)
    with driver(tmp_path) as job:
        assert begun(job, 2) == first
    with driver(tmp_path) as job:
        run(job, 2)
        run(job, 3)
    with driver(tmp_path) as job:
        assert ended(begun(job, 2)) == [(3, 3)]


def test_a_job_that_cannot_follow_keeps_its_timeline(tmp_path: Path) -> None:
    """Nothing is removed either."""
    with driver(tmp_path) as job:
        for batch in range(2):
            run(job, batch)
        first = begun(job, 2)
    with driver(tmp_path) as job:
        record = job.root.registrations()
        assert record is not None
        record.first_batch = 1
        job.root.write_registrations(1, record)
        with pytest.raises(JobError, match="set back further"):
            begun(job, 0, b"others")
    with driver(tmp_path) as job:
        assert begun(job, 2) == first


def test_a_job_that_begins_from_a_savepoint_continues_its_timeline(tmp_path: Path) -> None:
    """Also once the savepoint was removed."""
    uri = savepoint(tmp_path)
    with driver(tmp_path) as job:
        timeline = begun(job, VERSION + 1)
        assert ended(timeline) == [(VERSION + 1, -1)]
        assert timeline.ended[0].savepoint == uri
        assert timeline.ended[0].id == int.from_bytes(b"old job's id 16b"[:8], "big") >> 11
        assert timeline.id == int.from_bytes(QUERY[:8], "big") >> 11
    with driver(tmp_path) as job:
        assert begun(job, VERSION + 1) == timeline
