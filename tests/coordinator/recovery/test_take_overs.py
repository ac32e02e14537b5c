"""Checkpoints where one run of a job takes over from another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.coordinator.drivers import QUERY
from tests.coordinator.writers import LONG_S, folders, writing_driver
from tests.waiting import until

from queryable_state.server.checkpoint.completed import Completed, problems_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.coordinator.checkpoints.history import DeclinedError
from queryable_state.wire.errors import (
    CheckpointError,
    Reason,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.checkpoint.retention import Removed

OFTEN = JobConfig(checkpoint_interval_ms=1)


def test_what_a_run_that_takes_over_shares_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retain = StateRoot.retain

    def taken_over_then(root: StateRoot, *args: Any, **fields: Any) -> Removed:
        removed = retain(root, *args, **fields)
        root.allocate_epoch(b"another driver")
        root.storage.write(root.path("shared/00ff-12"), b"of its checkpoint")
        return removed

    monkeypatch.setattr(StateRoot, "retain", taken_over_then)
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert job.root.storage.list(job.root.path("shared")) == ["00ff-12"]


def test_a_run_that_was_taken_over_completes_no_checkpoint(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.a.may_write.clear()
        with ThreadPoolExecutor(1) as threads:
            made = threads.submit(job.coordinator.trigger_checkpoint, QUERY, LONG_S)
            until(lambda: bool(job.a.snapshots))
            job.root.allocate_epoch(b"another driver")
            job.a.may_write.set()
            with pytest.raises(SupersededError):
                made.result(LONG_S)
        assert job.root.checkpoints() == []
    with writing_driver(tmp_path) as after:
        after.run(1)
        after.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert folders(after) == {"chk-2"}


def test_a_run_that_was_taken_over_is_stopped(tmp_path: Path) -> None:
    with writing_driver(tmp_path, OFTEN) as job:
        job.run(0)
        job.await_reports("completed")
        job.root.allocate_epoch(b"another driver")
        with pytest.raises(SupersededError):
            job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert job.engine.stopped[QUERY].reason == Reason.FENCED


def test_a_checkpoint_that_another_driver_may_go_on_from_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = StateRoot.write_checkpoint

    def written_and_taken_over(root: StateRoot, metadata: CheckpointMetadata) -> None:
        write(root, metadata)
        root.allocate_epoch(b"another driver")
        raise RetryLaterError("the answer got lost")

    monkeypatch.setattr(StateRoot, "write_checkpoint", written_and_taken_over)
    with writing_driver(tmp_path) as job:
        job.run(0)
        with pytest.raises(RetryLaterError):
            job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        (made,) = job.root.checkpoints()
        completed = Completed(job.root.path("chk-1"), job.root.uri, made)
        assert problems_of(completed, job.root.storage) == []


def test_a_new_run_is_not_stopped_for_the_one_it_takes_over_from(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.a.may_write.clear()
        with ThreadPoolExecutor(1) as threads:
            made = threads.submit(job.coordinator.trigger_checkpoint, QUERY, 4.0)
            until(lambda: bool(job.a.snapshots))
            job.engine.start("job", query_id=QUERY)
            job.root.allocate_epoch(b"its next run, before it is bound")
            job.a.may_write.set()
            job.await_reports("failed")
            # It waits for the run to be bound, which is not within its time.
            with pytest.raises(DeclinedError):
                made.result(LONG_S)
        assert job.engine.stopped == {}


def test_what_failed_of_a_run_that_is_over_does_not_stop_the_next_one(tmp_path: Path) -> None:
    with writing_driver(tmp_path, JobConfig(checkpoint_interval_ms=1, tolerable_failures=0)) as job:
        job.a.may_write.clear()
        job.run(0)
        until(lambda: bool(job.a.snapshots))
        job.a.failure = CheckpointError("disk full")
        job.engine.start("job", query_id=QUERY)
        job.restarted()
        job.coordinator.configure("", JobConfig(checkpoint_interval_ms=0))
        job.run(1)
        job.a.may_write.set()
        job.await_reports("failed")
        job.a.failure = None
        # Waits for the end of the one that failed.
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        assert job.engine.stopped == {}
