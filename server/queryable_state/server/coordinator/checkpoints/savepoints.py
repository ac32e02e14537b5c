"""Savepoints: a job as of one batch, in a folder of its own that we never remove."""

from __future__ import annotations

import logging
import secrets
import time
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import checkpoint_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.framing import write_message
from queryable_state.server.coordinator.checkpoints.history import CheckpointReport, DeclinedError
from queryable_state.server.coordinator.checkpoints.snapshot_writer import (
    SnapshotTarget,
    check_files,
    new_bytes,
    size_bytes,
)
from queryable_state.server.coordinator.model.job_config import JobConfig
from queryable_state.wire.errors import CheckpointError, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
    from queryable_state.server.coordinator.checkpoints.job_ends import JobEnds
    from queryable_state.server.coordinator.checkpoints.snapshot_writer import SnapshotWriter
    from queryable_state.server.coordinator.checkpoints.snapshots import SnapshotPlan, Snapshots
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.roots.job_roots import JobRoots

_log = logging.getLogger(__name__)

# A server that gets a cancelled call still completes the file it is writing.
_QUIET_S = 0.3
_REMOVE_S = 10.0


class Savepoints:
    """Writes savepoints of jobs, durable or not. Blocking, thread-safe."""

    def __init__(
        self,
        engine: Engine,
        roots: JobRoots,
        snapshots: Snapshots,
        writer: SnapshotWriter,
        history: CheckpointHistory,
        ends: JobEnds,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._roots = roots
        self._snapshots = snapshots
        self._writer = writer
        self._history = history
        self._ends = ends
        self._wall_ms = wall_ms

    def trigger(
        self, job: str, directory: str = "", *, stop: bool = False, timeout_s: float | None = None
    ) -> tuple[str, int]:
        """Writes a savepoint into a new folder of `directory`; returns its URI and its batch.

        `job` is an id or a name; empty: the only job that runs. `directory` may be empty where
        the job has one set. With `stop` the job is ended first, so that no batch is committed
        after the savepoint. Without a `timeout_s` the job's checkpoints' counts. CheckpointError
        where it fails; nothing is left in the directory then.
        """
        query_id = self._snapshots.resolve(job)
        label = self._snapshots.label(query_id)
        config = self._roots.config(query_id) or JobConfig()
        directory = directory or config.savepoint_directory
        if not directory:
            raise CheckpointError(
                f"no directory for the savepoint of job {label}: name one, or set "
                "state.savepoints.dir"
            )
        timeout_s = config.checkpoint_timeout_ms / 1000 if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + timeout_s
        storage = storage_of(directory, config.storage_options, fsync=config.fsync)
        storage.check_writable(directory)
        uri = join(directory, layout.savepoint_name(query_id, secrets.token_bytes(6)))
        with self._snapshots.pinned(query_id), self._writer.alone(query_id, timeout_s):
            stopped = False
            try:
                if stop:
                    # A job that cannot be written now keeps running.
                    self._writer.await_open(query_id, deadline_s)
                    self._engine.end_query(query_id)
                    stopped = True
                    self._ends.await_end(query_id, deadline_s)
                metadata = self._write(query_id, storage, uri, deadline_s)
            except QueryableStateError as failure:
                if stopped:
                    raise CheckpointError(
                        f"job {label} is stopped, and its savepoint failed: {failure}; start the "
                        "job again, from its own checkpoint, before another one"
                    ) from failure
                raise
        root = self._roots.of(query_id)
        if root is not None:
            root.add_savepoint(uri, metadata)
        _log.info("savepoint %s of job %s: batch %d", uri, label, metadata.version)
        return uri, metadata.version

    def _write(
        self, query_id: bytes, storage: CheckpointStorage, uri: str, deadline_s: float
    ) -> CheckpointMetadata:
        triggered_at_ms, begun_s = self._wall_ms(), time.monotonic()
        version = -1

        def target(plan: SnapshotPlan) -> SnapshotTarget:
            nonlocal version
            version = plan.version
            return SnapshotTarget(
                checkpoint_id=0,
                root=uri,
                directory="",
                shared_directory="",
                format=checkpoint_pb2.CANONICAL,
            )

        def report(failure: BaseException | None = None, **sizes: int) -> None:
            declined = isinstance(failure, DeclinedError)
            self._history.add(
                query_id,
                CheckpointReport(
                    checkpoint_id=0,
                    savepoint=True,
                    state="declined" if declined else "failed" if failure else "completed",
                    version=version,
                    triggered_at_ms=triggered_at_ms,
                    duration_ms=round((time.monotonic() - begun_s) * 1000),
                    path=uri,
                    failure="" if failure is None else str(failure) or type(failure).__name__,
                    **sizes,
                ),
            )

        try:
            written = self._writer.write_when_open(query_id, target, deadline_s)
            root = self._roots.of(query_id)
            self._engine.export_progress(query_id, version, storage, join(uri, layout.SPARK))
            metadata = written.metadata(
                checkpoint_id=0,
                run_epoch=root.epoch if root else 0,
                triggered_at_ms=triggered_at_ms,
                duration_ms=round((time.monotonic() - begun_s) * 1000),
                timeline=root.timeline if root else None,
            )
            check_files(metadata, storage, target(written.plan))
            storage.write(join(uri, layout.METADATA), write_message(metadata))
        except BaseException as failure:
            _remove(storage, uri)
            report(failure)
            raise
        report(bytes=size_bytes(metadata), new_bytes=new_bytes(metadata))
        return metadata


def _remove(storage: CheckpointStorage, uri: str) -> None:
    """Removes the written files, including those that servers complete after the cancellation."""
    give_up_s = time.monotonic() + _REMOVE_S
    try:
        storage.delete(join(uri, layout.METADATA))
        while True:
            storage.delete_tree(uri)
            time.sleep(_QUIET_S)
            if not storage.walk(uri):
                # Some file systems keep empty folders.
                storage.delete_tree(uri)
                return
            if time.monotonic() >= give_up_s:
                _log.warning("servers still write to the failed savepoint %s: remove it", uri)
                return
    except QueryableStateError as problem:
        _log.warning("what was written of the failed savepoint %s stays: %s", uri, problem)
