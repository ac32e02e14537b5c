"""One attempt at a checkpoint, from its folder to the removal of older files."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import checkpoint_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.coordinator.checkpoints.history import CheckpointReport, DeclinedError
from queryable_state.server.coordinator.checkpoints.metadata import (
    check_files,
    metadata_of,
    new_bytes,
    shared_files,
    size_bytes,
)
from queryable_state.server.coordinator.checkpoints.snapshot_round import SnapshotTarget
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
    from queryable_state.server.coordinator.checkpoints.snapshot_plan import SnapshotPlan
    from queryable_state.server.coordinator.checkpoints.snapshot_writer import SnapshotWriter
    from queryable_state.server.coordinator.checkpoints.snapshots import Snapshots
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.roots.job_roots import JobRoot

_log = logging.getLogger(__name__)

_FORMATS = {
    "heap": checkpoint_pb2.CANONICAL,
    "rocksdb": checkpoint_pb2.ROCKSDB,
    "": checkpoint_pb2.SNAPSHOT_FORMAT_UNSPECIFIED,
}
# Claims the folder, and so the id, for one attempt: files that servers still write for a failed
# attempt or a superseded run never mix with those of a later one. The claim stays until a newer
# checkpoint, with a greater id, is complete.
_CLAIM = "_claim"


class CheckpointAttempt:
    """Writes one checkpoint, then retires older ones. Blocking; used once, by one thread.

    Nothing else may write a checkpoint of the job meanwhile.
    """

    def __init__(
        self,
        engine: Engine,
        root: JobRoot,
        snapshots: Snapshots,
        writer: SnapshotWriter,
        history: CheckpointHistory,
    ) -> None:
        self._engine = engine
        self._root = root
        self._snapshots = snapshots
        self._writer = writer
        self._history = history
        self._target: SnapshotTarget | None = None
        self.version = -1
        """The committed batch of the checkpoint, known after planning."""

    def run(self, triggered_at_ms: int, timeout_s: float) -> CheckpointMetadata:
        """Writes the checkpoint; raises and leaves no metadata if it cannot be completed."""
        root = self._root
        begun_s = time.monotonic()
        committed = self._snapshots.committed(root.query_id)
        self.version = -1 if committed is None else committed
        try:
            metadata = self._write(triggered_at_ms, begun_s, timeout_s)
        except QueryableStateError as failure:
            self._remove_leftovers()
            self._report(triggered_at_ms, begun_s, failure)
            raise
        self._history.add(
            root.query_id,
            CheckpointReport(
                checkpoint_id=metadata.checkpoint_id,
                savepoint=False,
                state="completed",
                version=metadata.version,
                triggered_at_ms=triggered_at_ms,
                duration_ms=metadata.duration_ms,
                bytes=size_bytes(metadata),
                new_bytes=new_bytes(metadata),
                path=self._folder(),
            ),
        )
        return metadata

    def retire(self, *, sweep: bool) -> bool:
        """Removes files that no kept checkpoint needs; False if that must be repeated later.

        With `sweep` also what failed checkpoints have left among the shared files.
        """
        root = self._root
        try:
            keep = max(1, root.config.retained_checkpoints)
            known = sorted(root.checkpoints(), key=lambda each: each.checkpoint_id, reverse=True)
            kept = known[:keep]
            # From here on no restore plan names these files. A server with an older plan may
            # still read them; it is known as reading until it opens the subtask.
            root.keep_checkpoints(kept)
            if self._snapshots.is_restoring(root.query_id):
                _log.info("older checkpoints of %s stay while one may be read", root.uri)
                return False
            removed = root.root.retain(known, keep, epoch=root.epoch)
            _log.debug("retired in %s: %s", root.uri, removed)
            if sweep:
                self._sweep(shared_files(kept, layout.SHARED))
        except QueryableStateError as problem:
            _log.warning("cannot remove older checkpoints of %s: %s", root.uri, problem)
            return False
        return True

    def _sweep(self, named: set[str]) -> None:
        root = self._root
        folder = root.root.path(layout.SHARED)
        left = [name for name in root.storage.list(folder) if name not in named]
        # A driver that takes over the root writes files of its own, which are not listed here.
        root.root.check_epoch(root.epoch)
        for name in left:
            root.storage.delete(join(folder, name))

    def _write(self, triggered_at_ms: int, begun_s: float, timeout_s: float) -> CheckpointMetadata:
        root = self._root
        written = self._writer.write(root.query_id, self._claim, timeout_s)
        assert self._target is not None
        metadata = metadata_of(
            written.plan,
            written.ranges,
            written.clocks,
            checkpoint_id=self._target.checkpoint_id,
            run_epoch=root.epoch,
            triggered_at_ms=triggered_at_ms,
            duration_ms=round((time.monotonic() - begun_s) * 1000),
            registrations=root.registrations_name,
            timeline=root.timeline,
            progress=self._engine.progress(root.query_id, written.plan.version),
        )
        check_files(metadata, root.storage, self._target)
        root.root.write_checkpoint(metadata)
        root.add_checkpoint(metadata)
        return metadata

    def _claim(self, plan: SnapshotPlan) -> SnapshotTarget:
        root = self._root
        self.version = plan.version
        root.root.check_epoch(root.epoch)
        # Needed even if no operator has run: state from a savepoint may have new ids.
        self._snapshots.keep_states(root)
        checkpoint_id = root.root.next_checkpoint_id()
        while not root.storage.create(self._claim_file(checkpoint_id), root.run_id.hex().encode()):
            checkpoint_id += 1
        native = _FORMATS.get(root.config.backend, checkpoint_pb2.SNAPSHOT_FORMAT_UNSPECIFIED)
        self._target = SnapshotTarget(
            checkpoint_id=checkpoint_id,
            root=root.uri,
            directory=layout.checkpoint_folder(checkpoint_id),
            shared_directory=layout.SHARED if root.config.incremental else "",
            format=native,
        )
        return self._target

    def _claim_file(self, checkpoint_id: int) -> str:
        return self._root.root.path(f"{layout.checkpoint_folder(checkpoint_id)}/{_CLAIM}")

    def _folder(self) -> str:
        return "" if self._target is None else self._root.root.path(self._target.directory)

    def _remove_leftovers(self) -> None:
        """Removes the files of a failed attempt, except the claim.

        Files that servers write later, and the claim, are removed once the next checkpoint is
        complete. A superseded run removes nothing: the next run may use the checkpoint.
        """
        if self._target is None:
            return
        storage, folder = self._root.storage, self._folder()
        try:
            self._root.root.check_epoch(self._root.epoch)
            # The metadata file may be written even though the answer of the storage was lost.
            storage.delete(layout.metadata_file(folder))
            for name in storage.list(folder):
                if name != _CLAIM:
                    storage.delete_tree(join(folder, name))
        except QueryableStateError as problem:
            _log.warning("cannot remove the failed checkpoint %s: %s", folder, problem)

    def _report(self, triggered_at_ms: int, begun_s: float, failure: QueryableStateError) -> None:
        declined = isinstance(failure, DeclinedError)
        self._history.add(
            self._root.query_id,
            CheckpointReport(
                checkpoint_id=self._target.checkpoint_id if self._target else 0,
                savepoint=False,
                state="declined" if declined else "failed",
                version=self.version,
                triggered_at_ms=triggered_at_ms,
                duration_ms=round((time.monotonic() - begun_s) * 1000),
                path=self._folder(),
                failure=failure.message,
            ),
        )
