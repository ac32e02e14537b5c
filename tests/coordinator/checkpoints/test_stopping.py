"""Jobs that are stopped with a savepoint."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.checkpoints.savepoints import LONG_S, trigger
from tests.coordinator.drivers import QUERY
from tests.coordinator.writers import writing_driver
from tests.waiting import until

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


def test_stopping_with_a_savepoint_takes_the_last_commit_along(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.run(1, committed=False)
        # The engine commits the batch in flight while it stops, and tells nobody.
        job.engine.commit(QUERY, 1)
        uri, version = trigger(job, tmp_path / "savepoints", stop=True)

        assert version == 1
        assert read_savepoint(uri, storage_of(uri)).version == 1
        info = job.engine.query(QUERY)
        assert info is not None
        assert (info.active, info.error) == (False, None)
        assert job.engine.stopped == {}


def test_stopping_with_a_savepoint_leaves_an_uncommitted_batch_out(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.run(1, committed=False)
        assert trigger(job, tmp_path / "savepoints", stop=True)[1] == 0
        assert {request.version for peer in (job.a, job.b) for request in peer.snapshots} == {0}


def test_a_stopped_job_whose_savepoint_failed_says_how_to_go_on(tmp_path: Path) -> None:
    directory = tmp_path / "savepoints"
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.a.failure = CheckpointError("no space left on device")
        with pytest.raises(CheckpointError, match=r"is stopped, and .* start the job again"):
            trigger(job, directory, stop=True)
        assert list(directory.iterdir()) == []


def test_a_job_that_cannot_be_written_is_not_stopped(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.b.ask("DeregisterServer", coordinator_pb2.DeregisterServerRequest(server_id="b"))
        with pytest.raises(CheckpointError, match="is not open on any state server"):
            job.coordinator.trigger_savepoint("job", str(tmp_path), stop=True, timeout_s=0.1)
        info = job.engine.query(QUERY)
        assert info is not None
        assert info.active


def test_the_state_of_a_stopped_job_stays_until_it_is_written(tmp_path: Path) -> None:
    with writing_driver(tmp_path, retained_finished_jobs=0) as job:
        job.run(0)
        job.a.may_write.clear()
        with ThreadPoolExecutor(1) as threads:
            made = threads.submit(trigger, job, tmp_path / "savepoints", stop=True)
            until(lambda: bool(job.a.snapshots))
            job.coordinator.refresh()
            assert job.a.dropped == []
            job.a.may_write.set()
            assert made.result(LONG_S)[1] == 0
        job.coordinator.refresh()
        until(lambda: job.a.dropped == [QUERY])


def test_a_job_stops_behind_batches_in_which_its_operators_did_not_run(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        for skipped in (1, 2):
            job.engine.plan(QUERY, skipped)
            job.engine.commit(QUERY, skipped)
        _, version = trigger(job, tmp_path / "savepoints", stop=True)
        assert version == 2
