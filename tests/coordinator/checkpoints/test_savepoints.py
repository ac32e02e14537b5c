"""Savepoints of a job on two servers that write when they are let."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, subtask_of
from tests.coordinator.writers import WritingDriver, until, writing_driver

from queryable_state.internal.v1 import checkpoint_pb2, coordinator_pb2
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.server.coordinator import JobConfig
from queryable_state.wire.errors import CheckpointError, UnknownJobError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

LONG_S = 10.0
NOT_DURABLE = JobConfig(changelog=False)


def trigger(
    job: WritingDriver, directory: object, *, name: str = "job", stop: bool = False
) -> tuple[str, int]:
    return job.coordinator.trigger_savepoint(name, str(directory), stop=stop, timeout_s=LONG_S)


def test_a_savepoint_is_a_folder_of_its_own_with_state_and_progress(tmp_path: Path) -> None:
    directory = tmp_path / "savepoints"
    with writing_driver(tmp_path) as job:
        job.run(0, 1)
        uri, version = trigger(job, directory)

        assert version == 1
        (folder,) = directory.iterdir()
        assert str(folder) == uri
        assert folder.name.startswith(f"savepoint-{QUERY[:3].hex()}-")
        made = read_savepoint(uri, storage_of(uri))
        assert (made.savepoint, made.checkpoint_id, made.version) == (True, 0, 1)
        assert {r.format for o in made.operators for r in o.ranges} == {checkpoint_pb2.CANONICAL}
        paths = [f.path for o in made.operators for r in o.ranges for f in r.files]
        assert paths == ["op/0-63/state", "op/64-127/state"]
        assert all((folder / path).is_file() for path in paths)
        digest = job.engine.clocks(QUERY, 1).offsets_digest.hex()
        assert (folder / "spark" / "progress").read_text() == f"{QUERY.hex()} 1 {digest}\n"
        for peer in (job.a, job.b):
            (request,) = peer.snapshots
            assert (request.root, request.directory, request.shared_directory) == (uri, "", "")


def test_a_running_job_goes_on_behind_its_savepoint(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        _, version = trigger(job, tmp_path / "savepoints")
        job.run(1, 2)
        assert version == 0
        info = job.engine.query(QUERY)
        assert info is not None
        assert info.active
        assert job.coordinator.checkpoints(QUERY)[0].savepoint
        assert job.root.checkpoints() == []


def test_a_job_that_is_not_durable_has_savepoints_too(tmp_path: Path) -> None:
    with writing_driver(tmp_path, NOT_DURABLE) as job:
        job.run(0)
        uri, _ = trigger(job, tmp_path / "savepoints")
        assert read_savepoint(uri, storage_of(uri)).run_epoch == 0


def test_the_only_job_that_runs_needs_no_name(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        with pytest.raises(UnknownJobError, match="no job is running"):
            trigger(job, tmp_path, name="")
        job.run(0)
        assert trigger(job, tmp_path / "savepoints", name="")[1] == 0
        assert trigger(job, tmp_path / "savepoints", name=str(uuid.UUID(bytes=QUERY)))[1] == 0
        with pytest.raises(UnknownJobError):
            trigger(job, tmp_path / "savepoints", name="other")


def test_the_directory_may_be_configured_and_must_be_somewhere(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        with pytest.raises(CheckpointError, match=r"state\.savepoints\.dir"):
            job.coordinator.trigger_savepoint("job")
    configured = JobConfig(checkpoint_interval_ms=0, savepoint_directory=str(tmp_path / "set"))
    with writing_driver(tmp_path, configured) as job:
        job.run(1)
        uri, _ = job.coordinator.trigger_savepoint("job")
        assert uri.startswith(str(tmp_path / "set"))


def test_a_directory_that_cannot_keep_files_is_refused_before_anything_stops(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("no folder")
    with writing_driver(tmp_path) as job:
        job.run(0)
        for directory in (tmp_path / "file", "driver:/memory", "relative/folder"):
            with pytest.raises(CheckpointError):
                trigger(job, directory, stop=True)
        info = job.engine.query(QUERY)
        assert info is not None
        assert info.active


def test_a_savepoint_that_fails_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "savepoints"
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.b.failure = CheckpointError("no space left on device")
        with pytest.raises(CheckpointError, match="no space left on device"):
            trigger(job, directory)
        assert list(directory.iterdir()) == []
        (report,) = job.reports()
        assert (report.state, report.savepoint) == ("failed", True)


def test_progress_that_cannot_be_exported_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "savepoints"

    def purged(query_id: bytes, batch_id: int, storage: CheckpointStorage, folder: str) -> None:
        storage.write(f"{folder}/metadata", b"half of it")
        raise CheckpointError(f"offsets/{batch_id} is purged")

    with writing_driver(tmp_path) as job:
        monkeypatch.setattr(job.engine, "export_progress", purged)
        job.run(0)
        with pytest.raises(CheckpointError, match="offsets/0 is purged"):
            trigger(job, directory)
        assert list(directory.iterdir()) == []


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


def test_savepoint_and_checkpoint_are_written_one_after_the_other(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        job.a.may_write.clear()
        with ThreadPoolExecutor(2) as threads:
            savepoint = threads.submit(trigger, job, tmp_path / "savepoints")
            until(lambda: bool(job.a.snapshots))
            checkpoint = threads.submit(job.coordinator.trigger_checkpoint, QUERY, LONG_S)
            job.run(1)
            assert len(job.a.snapshots) == 1
            job.a.may_write.set()
            assert savepoint.result(LONG_S)[1] == 0
            assert checkpoint.result(LONG_S).version == 1


def test_a_savepoint_can_be_asked_for_by_the_wire(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        request = coordinator_pb2.TriggerSavepointRequest(
            job="job", directory=str(tmp_path / "savepoints"), stop=True
        )
        response = job.a.ask("TriggerSavepoint", request)
        assert response.version == 0
        assert read_savepoint(response.path, storage_of(response.path)).job_id == QUERY
        nowhere = coordinator_pb2.TriggerSavepointRequest(job="job")
        with pytest.raises(CheckpointError, match=r"state\.savepoints\.dir"):
            job.a.ask("TriggerSavepoint", nowhere)


def test_cancelling_removes_the_root_where_that_is_wished_for(tmp_path: Path) -> None:
    config = JobConfig(checkpoint_interval_ms=0, delete_on_cancellation=True)
    with writing_driver(tmp_path, config) as job:
        job.run(0)
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        job.engine.end(QUERY)
        job.coordinator.job_cancelled(QUERY)
        assert not job.root.exists()
        assert job.root.newest_epoch() == 0


def test_cancelling_gives_up_the_checkpoint_under_way(tmp_path: Path) -> None:
    config = JobConfig(checkpoint_interval_ms=0, delete_on_cancellation=True)
    with writing_driver(tmp_path, config) as job, ThreadPoolExecutor(1) as threads:
        job.run(0)
        job.a.may_cut.clear()
        made = threads.submit(job.coordinator.trigger_checkpoint, QUERY, LONG_S)
        # The other one has written: what it has not by then it may still write.
        until(lambda: bool(job.a.snapshots) and job.b.writes == 1)
        job.engine.end(QUERY)
        job.coordinator.job_cancelled(QUERY)
        with pytest.raises(CheckpointError, match="is cancelled"):
            made.result(LONG_S)
        assert job.root.storage.walk(job.root.uri) == []


def test_cancelling_takes_spark_s_part_along_where_it_is_in_the_root(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints" / "job"
    config = JobConfig(checkpoint_interval_ms=0, delete_on_cancellation=True, state_root=str(root))
    with writing_driver(tmp_path, config) as job:
        job.engine.start("job", query_id=QUERY, checkpoint_location=f"file:{root}/spark")
        job.restarted()
        (root / "spark").mkdir(parents=True)
        (root / "spark" / "metadata").write_text("Spark's")
        job.begin(0)
        job.open(subtask_of(0), 0)
        job.engine.end(QUERY)
        job.coordinator.job_cancelled(QUERY)
        assert not root.exists()


def test_a_job_that_failed_keeps_its_root(tmp_path: Path) -> None:
    config = JobConfig(checkpoint_interval_ms=0, delete_on_cancellation=True)
    with writing_driver(tmp_path, config) as job:
        job.run(0)
        job.engine.end(QUERY, error="a user function failed")
        job.coordinator.job_cancelled(QUERY)
        assert job.root.manifest(0) is not None


def test_cancelling_keeps_the_root_by_default(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        made = job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        job.engine.end(QUERY)
        job.coordinator.job_cancelled(QUERY)
        assert job.root.checkpoints() == [made]


@pytest.mark.parametrize("prefer_checkpoint", [False, True])
def test_recovery_reads_the_newest_savepoint_unless_checkpoints_are_preferred(
    tmp_path: Path, prefer_checkpoint: bool
) -> None:
    """What comes of it is the same: the changelogs since then follow."""
    config = JobConfig(checkpoint_interval_ms=0, prefer_checkpoint=prefer_checkpoint)
    with writing_driver(tmp_path, config) as job:
        job.run(0)
        job.coordinator.trigger_checkpoint(QUERY, LONG_S)
        job.run(1)
        uri, _ = trigger(job, tmp_path / "savepoints")
        job.run(2)
        gone = coordinator_pb2.DeregisterServerRequest(server_id=job.a.server_id)
        job.a.ask("DeregisterServer", gone)
        job.begin(3, server="c")
        plan = job.open(subtask_of(0), 3, server="c")
        roots = [source.root for source in plan.sources]
        assert roots == ([job.root.uri] if prefer_checkpoint else [uri, job.root.uri])
        assert [source.version for source in plan.sources][-1] == 0
        assert {file.batch_id for file in plan.changelogs} == {1, 2}


def test_a_job_stops_behind_batches_in_which_its_operators_did_not_run(tmp_path: Path) -> None:
    with writing_driver(tmp_path) as job:
        job.run(0)
        for skipped in (1, 2):
            job.engine.plan(QUERY, skipped)
            job.engine.commit(QUERY, skipped)
        _, version = trigger(job, tmp_path / "savepoints", stop=True)
        assert version == 2
