"""Checkpoints that fail, are declined or are given up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY
from tests.coordinator.writers import LONG_S, folders, writing_driver
from tests.waiting import until

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.checkpoint.completed import Completed, problems_of
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.testing import FakeClock
from queryable_state.wire.errors import (
    CheckpointError,
    PlacementError,
    Reason,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.wire.errors import QueryableStateError

from tests.coordinator.checkpoints.background import FIRST, OFTEN, SECOND, in_background, stable


def test_a_checkpoint_too_slow_is_given_up_and_leaves_nothing(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.b.may_cut.clear()
        with pytest.raises(CheckpointError, match=r"not written within 0\.3 s"):
            job.coordinator.trigger_checkpoint(QUERY, 0.3)
        job.run(1)
        assert stable(job) == 1
        assert folders(job) == set()
        (report,) = job.reports()
        assert (report.state, report.version) == ("failed", 0)
        assert "1 of 2 state servers" in report.failure


def test_what_a_server_could_not_write_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.b.failure = CheckpointError(
            "s3://bucket/x: access denied: allow s3:PutObject",
            reason=Reason.STORAGE_WRITE_FAILED,
        )
        job.b.may_write.clear()
        with ThreadPoolExecutor(1) as threads:
            made = threads.submit(job.coordinator.trigger_checkpoint, QUERY, LONG_S)
            # Else the other server's file may come after all were removed.
            until(lambda: job.a.writes == 1)
            job.b.may_write.set()
            with pytest.raises(
                CheckpointError, match=r"server b, writing .*allow s3:PutObject"
            ) as refused:
                made.result(LONG_S)
        assert refused.value.reason == Reason.STORAGE_WRITE_FAILED
        assert folders(job) == set()
        job.b.failure = None
        assert job.coordinator.trigger_checkpoint(QUERY, LONG_S).version == 0
        assert stable(job) == 0
        assert [report.state for report in job.reports()] == ["completed", "failed"]


def test_what_a_server_writes_late_is_no_file_of_a_later_checkpoint(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        stalled = job.b.stalled = threading.Event()
        with pytest.raises(CheckpointError, match="not written within"):
            job.coordinator.trigger_checkpoint(QUERY, 0.3)
        job.b.stalled = None
        job.run(1)
        made = job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        stalled.set()
        until(lambda: job.b.writes == 2)
        completed = Completed(job.root.path("chk"), job.root.uri, made)
        assert problems_of(completed, job.root.storage, checksums=True) == []


def test_a_file_that_is_not_where_it_is_named_makes_no_checkpoint(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.a.loses_files = True
        with pytest.raises(CheckpointError, match=r"chk-1/op/0-63/state .* is not there"):
            job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert job.root.checkpoints() == []


def test_a_subtask_left_out_makes_no_checkpoint(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.b.skipped = {1}
        with pytest.raises(CheckpointError, match="without having written 1 subtasks"):
            job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert job.root.checkpoints() == []


def test_more_failures_than_tolerated_stop_the_job_and_name_the_cause(tmp_path: Path) -> None:
    with writing_driver(tmp_path, JobConfig(checkpoint_interval_ms=1, tolerable_failures=1)) as job:
        job.a.failure = CheckpointError("disk full: make room on /data")
        job.run(0)
        until(lambda: QUERY in job.engine.stopped)
        error = job.engine.stopped[QUERY]
        assert isinstance(error, CheckpointError)
        assert "disk full: make room on /data" in str(error)
        assert len(job.reports("failed")) == 2


def test_failures_that_are_tolerated_stop_nothing(tmp_path: Path) -> None:
    with writing_driver(tmp_path, OFTEN) as job:
        job.a.failure = RetryLaterError("the store is busy")
        job.run(0)
        job.await_reports("failed", 3)
        job.a.failure = None
        job.await_reports("completed")
        assert job.engine.stopped == {}


@pytest.mark.parametrize(
    "failure",
    [PlacementError("it is not mine"), SupersededError("version 0 is folded away")],
)
def test_a_server_that_has_not_the_stores_any_more_is_no_failure_of_the_storage(
    tmp_path: Path, failure: QueryableStateError
) -> None:
    config = JobConfig(checkpoint_interval_ms=1, tolerable_failures=0)
    with writing_driver(tmp_path, config) as job:
        job.a.failure = failure
        job.run(0)
        job.await_reports("failed")
        job.a.failure = None
        job.run(1)
        job.await_reports("completed")
        assert job.engine.stopped == {}


def test_a_checkpoint_is_declined_while_a_subtask_is_not_open(tmp_path: Path) -> None:
    with writing_driver(tmp_path, OFTEN) as job:
        epoch = job.begin(0)
        job.peer("b")
        job.open(FIRST, 0)
        job.seal(FIRST, 0, 1, epoch=epoch)
        job.commit(0)
        (report,) = job.await_reports("declined")
        assert "subtask 1 of operator 'op' is not open" in report.failure
        assert job.a.snapshots == []
        job.begin(1)
        job.open(SECOND, 1, server="b")
        job.seal(FIRST, 1, 2, epoch=epoch)
        job.seal(SECOND, 1, 3, server="b", epoch=epoch)
        job.commit(1)
        assert [report.version for report in job.await_reports("completed")] == [1]
        assert job.engine.stopped == {}


def test_being_declined_for_one_reason_again_and_again_is_one_entry(tmp_path: Path) -> None:
    with writing_driver(tmp_path, OFTEN) as job:
        epoch = job.begin(0)
        job.open(FIRST, 0)
        for batch in range(3):
            job.begin(batch)
            job.seal(FIRST, batch, batch, epoch=epoch)
            job.commit(batch)
            attempts = batch + 1
            until(lambda: sum(report.attempts for report in job.reports()) == attempts)  # noqa: B023
        (report,) = job.reports()
        assert report.state == "declined"


def test_a_server_that_dies_ends_the_checkpoint_at_once_and_counts_as_no_failure(
    tmp_path: Path,
) -> None:
    config = JobConfig(checkpoint_interval_ms=1, tolerable_failures=0)
    with writing_driver(tmp_path, config) as job:
        job.b.may_cut.clear()
        job.run(0)
        until(lambda: bool(job.a.snapshots and job.b.snapshots))
        job.b.die()
        (report,) = job.await_reports("failed")
        assert "server b" in report.failure
        assert job.engine.stopped == {}
        job.b.ask("DeregisterServer", coordinator_pb2.DeregisterServerRequest(server_id="b"))
        epoch = job.begin(1)
        job.seal(FIRST, 1, 1, epoch=epoch)
        job.commit(1)
        assert [version.stable_version for version in job.a.heartbeat().committed] == [1]


def test_a_server_that_hangs_past_its_lease_ends_the_checkpoint(tmp_path: Path) -> None:
    clock = FakeClock()
    with writing_driver(tmp_path, clock=clock) as job:
        job.run(0)
        job.b.may_cut.clear()
        with in_background(job, timeout_s=60.0):
            until(lambda: bool(job.a.snapshots and job.b.snapshots))
            for _ in range(5):
                job.running.advance(1_500)
                job.a.heartbeat()
            (report,) = job.await_reports("failed")
        assert "lost subtask 1" in report.failure
        assert folders(job) == set()


def test_what_a_failed_checkpoint_shared_goes_with_the_next_one(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        stray = job.root.path("shared/00ff-12")
        job.root.storage.write(stray, b"of a driver before")
        job.root.storage.write(job.root.path("chk-7/op/0-63/state"), b"of a driver before")
        assert job.coordinator.trigger_checkpoint(QUERY, LONG_S).checkpoint_id == 8
        assert not job.root.storage.exists(stray)
        assert folders(job) == {"chk-8"}


def test_a_job_without_a_lasting_place_says_so(tmp_path: Path) -> None:
    config = JobConfig(changelog=False)
    with writing_driver(tmp_path, config) as job:
        job.run(0)
        with pytest.raises(CheckpointError, match=r"set state\.checkpoints\.dir"):
            job.coordinator.trigger_checkpoint(QUERY, LONG_S)


def test_the_end_of_the_coordinator_ends_a_checkpoint(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.a.may_cut.clear()
        with in_background(job, timeout_s=60.0):
            until(lambda: bool(job.a.snapshots))
            job.coordinator.close()
        (report,) = job.reports()
        assert (report.state, report.failure) == ("failed", "the coordinator stops")
