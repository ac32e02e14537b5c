"""Checkpoints of every durable job: due, triggered, written, complete, older ones retired."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import checkpoint_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.coordinator.checkpoints.history import (
    CheckpointReport,
    DeclinedError,
    InterruptedSnapshotError,
)
from queryable_state.server.coordinator.checkpoints.snapshot_writer import (
    SnapshotTarget,
    check_files,
    new_bytes,
    shared_files,
    size_bytes,
)
from queryable_state.wire.errors import (
    CheckpointError,
    QueryableStateError,
    Reason,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
    from queryable_state.server.coordinator.checkpoints.snapshot_writer import SnapshotWriter
    from queryable_state.server.coordinator.checkpoints.snapshots import SnapshotPlan, Snapshots
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots

_log = logging.getLogger(__name__)


_THREADS = 4
_IDLE_S = 1.0
_RETRY_S = 0.05
# Every so many skipped checkpoints one WARNING, because changelogs grow meanwhile.
_TOLD = (10, 100, 1_000, 10_000)
# Failures that say nothing about the storage: the next checkpoint may succeed.
_NOT_COUNTED = (DeclinedError, InterruptedSnapshotError, SupersededError)


_FORMATS = {
    "heap": checkpoint_pb2.CANONICAL,
    "rocksdb": checkpoint_pb2.ROCKSDB,
    "": checkpoint_pb2.SNAPSHOT_FORMAT_UNSPECIFIED,
}
# Claims the folder, and so the id, for one attempt: files that servers still write for a failed
# attempt or a superseded run never mix with those of a later one. The claim stays until a newer
# checkpoint, with a greater id, is complete.
_CLAIM = "_claim"


class CheckpointSchedule:
    """The times of one run of a job, in monotonic seconds the caller tells. Not thread-safe.

    Periods count from start to start, pauses from end to start. An attempt that was declined,
    or interrupted, is made again as soon as a newer batch is committed.
    """

    def __init__(self, config: JobConfig, now_s: float, *, last_age_s: float, version: int) -> None:
        """`last_age_s`: since the newest checkpoint of the root was begun, one as of `version`.

        A root without one is as old as its run, `version` then is -1.
        """
        self._interval_s = config.checkpoint_interval_ms / 1000
        self._min_pause_s = config.min_pause_ms / 1000
        self._tolerable_failures = config.tolerable_failures
        # A clock that was set back must not delay the next checkpoint.
        self._started_s = now_s - max(0.0, last_age_s)
        self._ended_s = float("-inf")
        self._started_before_s = self._started_s
        self._version = version
        self._failures = 0
        self._missed = 0
        self._ended = False

    def due_in_s(self, now_s: float, committed: int) -> float | None:
        """Seconds until the next one is due; None: not before a newer commit, or never."""
        if self._interval_s <= 0 or self._ended or committed <= self._version:
            return None
        due_s = max(self._started_s + self._interval_s, self._ended_s + self._min_pause_s)
        return max(0.0, due_s - now_s)

    def start(self, now_s: float) -> None:
        """Records the begin of a checkpoint."""
        self._started_before_s, self._started_s = self._started_s, now_s

    def complete(self, now_s: float, version: int) -> None:
        """Records the checkpoint in progress as complete, at this version."""
        self._ended_s = now_s
        self._version = max(self._version, version)
        self._failures = self._missed = 0

    def put_off(self, version: int) -> None:
        """Records the one in progress as declined or interrupted, not by its storage."""
        self._started_s = self._started_before_s
        self._version = max(self._version, version)

    def miss(self) -> int:
        """Records that a due one was put off; returns how often in a row."""
        self._missed += 1
        return self._missed

    def fail(self, now_s: float) -> bool:
        """Records the one in progress as failed; True if the job tolerates no more."""
        self._ended_s = now_s
        self._failures += 1
        return 0 <= self._tolerable_failures < self._failures

    def end(self) -> None:
        """Makes no further checkpoint due, because the run is being stopped."""
        self._ended = True


class _CheckpointAttempt:
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
        metadata = written.metadata(
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


class Checkpointer:
    """Triggers the checkpoints of all jobs, on threads of its own.

    Set `wake` after a commit is published to all servers. Call `start` once; `close` is
    idempotent and cancels checkpoints in progress.
    """

    def __init__(
        self,
        engine: Engine,
        roots: JobRoots,
        snapshots: Snapshots,
        writer: SnapshotWriter,
        history: CheckpointHistory,
        wake: threading.Event,
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._roots = roots
        self._snapshots = snapshots
        self._writer = writer
        self._history = history
        self._wall_ms = wall_ms
        self._lock = threading.Lock()
        self._schedules: dict[bytes, tuple[JobRoot, CheckpointSchedule]] = {}
        self._busy: set[bytes] = set()
        # Roots without leftovers of failed checkpoints; unknown for those of earlier runs.
        self._swept: weakref.WeakSet[JobRoot] = weakref.WeakSet()
        self._wake = wake
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(_THREADS, "queryable-state-checkpoint")
        self._watcher = threading.Thread(
            target=self._watch, name="queryable-state-checkpoints", daemon=True
        )

    def start(self) -> None:
        """Starts the threads."""
        self._watcher.start()

    def close(self) -> None:
        """Triggers no more checkpoints, and cancels those in progress."""
        self._stopping.set()
        self._wake.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self._writer.close()
        self._threads.shutdown()

    def trigger(self, query_id: bytes, timeout_s: float) -> CheckpointMetadata:
        """Takes a checkpoint now, or as soon as all subtasks can be written.

        Raises CheckpointError if the job has no durable root or the checkpoint fails.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                return self._take(self._root(query_id), deadline_s - time.monotonic())
            except DeclinedError:
                if time.monotonic() + _RETRY_S >= deadline_s or self._stopping.wait(_RETRY_S):
                    raise

    def _root(self, query_id: bytes) -> JobRoot:
        label = self._snapshots.label(query_id)
        if self._roots.config(query_id) is None:
            raise DeclinedError(f"job {label} has not begun a batch in this driver")
        job_root = self._roots.of(query_id)
        if job_root is None:
            raise CheckpointError(
                f"job {label} keeps no durable state, so there is "
                "nothing to put a checkpoint to: set state.checkpoints.dir, or start the query "
                "with a checkpoint location that lasts, and do not switch the changelog off"
            )
        return job_root

    def _watch(self) -> None:
        while not self._stopping.is_set():
            # Cleared first: a commit during the check is checked right after it.
            self._wake.clear()
            try:
                pause_s = self._look()
            except Exception:  # noqa: BLE001 - one defect must not end all checkpoints
                _log.exception("the check for due checkpoints failed; it is repeated")
                pause_s = _IDLE_S
            self._wake.wait(pause_s)

    def _look(self) -> float:
        """Starts checkpoints that are due; returns the seconds until the next check."""
        pause_s = _IDLE_S
        roots = self._roots.all()
        with self._lock:
            gone = self._schedules.keys() - {root.query_id for root in roots}
            for query_id in gone:
                del self._schedules[query_id]
        for root in roots:
            committed = self._snapshots.committed(root.query_id)
            if committed is None:
                continue
            with self._lock:
                due_s = self._schedule(root).due_in_s(time.monotonic(), committed)
                if due_s is None or root.query_id in self._busy:
                    continue
                if due_s > 0:
                    pause_s = min(pause_s, due_s)
                    continue
                self._busy.add(root.query_id)
            self._threads.submit(self._take_due, root)
        return pause_s

    def _schedule(self, root: JobRoot) -> CheckpointSchedule:
        known, schedule = self._schedules.get(root.query_id, (None, None))
        if known is root and schedule is not None:
            return schedule
        newest = next(iter(root.checkpoints()), None)
        schedule = CheckpointSchedule(
            root.config,
            time.monotonic(),
            last_age_s=(self._wall_ms() - newest.triggered_at_ms) / 1000 if newest else 0.0,
            version=newest.version if newest else -1,
        )
        self._schedules[root.query_id] = root, schedule
        return schedule

    def _take_due(self, root: JobRoot) -> None:
        try:
            self._take(root, root.config.checkpoint_timeout_ms / 1000)
        except _NOT_COUNTED as reason:
            with self._lock:
                missed = self._schedule(root).miss()
            level = logging.WARNING if missed in _TOLD else logging.INFO
            _log.log(level, "no checkpoint, %d times in a row: %s", missed, reason)
        except QueryableStateError as failure:
            _log.warning("a checkpoint has failed: %s", failure)
            self._count(root, failure)
        except Exception:  # noqa: BLE001 - nobody waits for the outcome of this thread
            _log.exception("a checkpoint of query %s has failed", root.query_id.hex())
        finally:
            with self._lock:
                self._busy.discard(root.query_id)
            self._wake.set()

    def _take(self, root: JobRoot, timeout_s: float) -> CheckpointMetadata:
        deadline_s = time.monotonic() + timeout_s
        with self._snapshots.pinned(root.query_id), self._writer.alone(root.query_id, timeout_s):
            if self._roots.of(root.query_id) is not root:
                raise self._run_begins(root)
            with self._lock:
                schedule = self._schedule(root)
                schedule.start(time.monotonic())
            attempt = _CheckpointAttempt(
                self._engine, root, self._snapshots, self._writer, self._history
            )
            try:
                metadata = attempt.run(self._wall_ms(), deadline_s - time.monotonic())
            except _NOT_COUNTED as reason:
                with self._lock:
                    schedule.put_off(attempt.version)
                    self._swept.discard(root)
                if reason.reason == Reason.FENCED and not self._stop(root, reason, schedule):
                    raise self._run_begins(root) from reason
                raise
            except QueryableStateError:
                with self._lock:
                    self._swept.discard(root)
                raise
            with self._lock:
                schedule.complete(time.monotonic(), metadata.version)
            _log.info(
                "checkpoint %s of job %s: batch %d, %d ms",
                root.root.path(layout.checkpoint_folder(metadata.checkpoint_id)),
                self._snapshots.label(root.query_id),
                metadata.version,
                metadata.duration_ms,
            )
            with self._lock:
                sweep = root not in self._swept
            if attempt.retire(sweep=sweep):
                with self._lock:
                    self._swept.add(root)
            return metadata

    def _run_begins(self, root: JobRoot) -> DeclinedError:
        label = self._snapshots.label(root.query_id)
        return DeclinedError(f"job {label}: a new run of it begins")

    def _count(self, root: JobRoot, failure: QueryableStateError) -> None:
        with self._lock:
            schedule = self._schedule(root)
            if not schedule.fail(time.monotonic()):
                return
        tolerable = root.config.tolerable_failures
        reason = failure.reason if failure.reason == Reason.STORAGE_WRITE_FAILED else None
        error = CheckpointError(
            f"job {self._snapshots.label(root.query_id)} is stopped, because more checkpoints "
            f"failed in a row than the {tolerable} that are tolerated; the last one: {failure}",
            reason=reason,
        )
        self._stop(root, error, schedule)

    def _stop(
        self, root: JobRoot, error: QueryableStateError, schedule: CheckpointSchedule
    ) -> bool:
        """Stops the run that holds the root; returns False if a newer run has begun."""
        try:
            info = self._engine.query(root.query_id)
            if info is None:
                return True
            if info.run_id != root.run_id:
                return False
            _log.error("%s", error)
            self._engine.stop_query(root.query_id, error)
        except QueryableStateError as problem:
            _log.error("cannot stop query %s: %s", root.query_id.hex(), problem)
            return True
        with self._lock:
            schedule.end()
        return True
