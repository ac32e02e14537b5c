"""Ends of jobs, and the removal of the root of a cancelled job."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.local_storage import local_path
from queryable_state.server.checkpoint.file_systems.storage import is_local
from queryable_state.wire.errors import QueryTimeoutError

if TYPE_CHECKING:
    from queryable_state.server.coordinator.checkpoints.snapshot_writer import SnapshotWriter
    from queryable_state.server.coordinator.checkpoints.snapshots import Snapshots
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.recovery.batch_commits import BatchCommits
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots

_log = logging.getLogger(__name__)

_LOOK_S = 0.02
_CANCEL_S = 30.0


class JobEnds:
    """Waits for the ends of jobs, and removes roots of cancelled jobs. Blocking, thread-safe."""

    def __init__(
        self,
        engine: Engine,
        commits: BatchCommits,
        roots: JobRoots,
        snapshots: Snapshots,
        writer: SnapshotWriter,
    ) -> None:
        self._engine = engine
        self._commits = commits
        self._roots = roots
        self._snapshots = snapshots
        self._writer = writer

    def cancelled(self, query_id: bytes, *, discards: bool = False) -> None:
        """Removes the root of a cancelled job, if its configuration says so or with `discards`.

        The user has ended the job for good; waits for its end. With `discards` the caller removes
        Spark's checkpoint afterwards.
        A failed job, and a job whose root another run has taken over, keep their files.
        """
        root = self._roots.of(query_id)
        if root is None or not (discards or root.config.delete_on_cancellation):
            return
        label = self._snapshots.label(query_id)
        deadline_s = time.monotonic() + _CANCEL_S
        with (
            self._writer.refused(query_id, f"job {label} is cancelled"),
            self._writer.alone(query_id, _CANCEL_S),
        ):
            self.await_end(query_id, deadline_s)
            info = self._engine.query(query_id)
            if info is not None and info.error is not None:
                _log.warning("job %s has failed (%s): %s is kept", label, info.error, root.uri)
                return
            root.root.check_epoch(root.epoch)
            # After this, a late publication writes nothing to the root.
            self._roots.forget(query_id)
            if discards:
                root.root.delete()
            else:
                self._remove(root, info.checkpoint_location if info else "")
        _log.info("job %s is cancelled, and %s is removed", label, root.uri)

    def await_end(self, query_id: bytes, deadline_s: float) -> None:
        """Waits until a job has ended, and its last commit is published.

        No batch is committed after that. `deadline_s` is on the monotonic clock.
        """
        while (info := self._engine.query(query_id)) is not None and info.active:
            if time.monotonic() >= deadline_s:
                raise QueryTimeoutError(
                    f"job {self._snapshots.label(query_id)} has not ended in time: its batch in "
                    "flight still runs"
                )
            time.sleep(_LOOK_S)
        # Batches may have been committed since the last poll: several if none of their tasks ran a
        # stateful operator, because only those wait for the publication of the batch before.
        last = self._snapshots.newest_commit(query_id)
        while self._engine.is_committed(query_id, last + 1):
            last += 1
        if last >= 0:
            self._commits.settle(query_id, last, max(0.0, deadline_s - time.monotonic()))

    def _remove(self, root: JobRoot, checkpoint_location: str) -> None:
        if _is_below(checkpoint_location, root.uri):
            # Spark's checkpoint is removed, too: it is useless without the state.
            root.root.delete()
            root.storage.delete_tree(root.uri)
            return
        root.root.delete()
        if checkpoint_location:
            _log.warning(
                "the state of the cancelled job is removed; its query would continue from %s "
                "without state: remove that folder, too, before you start the query again",
                checkpoint_location,
            )


def _is_below(location: str, root: str) -> bool:
    return bool(location) and _plain(location).startswith(_plain(root) + "/")


def _plain(uri: str) -> str:
    return str(local_path(uri)) if is_local(uri) else uri.rstrip("/")
