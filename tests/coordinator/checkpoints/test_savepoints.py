"""Savepoints of a job on two servers that write when they are let."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.checkpoints.savepoints import LONG_S, trigger
from tests.coordinator.drivers import QUERY, subtask_of
from tests.coordinator.writers import writing_driver
from tests.waiting import until

from queryable_state.internal.v1 import checkpoint_pb2, coordinator_pb2
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.server.coordinator import JobConfig
from queryable_state.wire.errors import CheckpointError, UnknownJobError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage


NOT_DURABLE = JobConfig(changelog=False)


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
