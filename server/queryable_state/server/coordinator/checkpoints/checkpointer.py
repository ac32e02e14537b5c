"""Checkpointing of every durable job: trigger, write, complete, retire."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.server.coordinator.checkpoints.attempt import CheckpointAttempt
from queryable_state.server.coordinator.checkpoints.history import (
    DeclinedError,
    InterruptedSnapshotError,
)
from queryable_state.server.coordinator.checkpoints.schedule import CheckpointSchedule
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
    from queryable_state.server.coordinator.checkpoints.snapshots import Snapshots
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots

_log = logging.getLogger(__name__)

_THREADS = 4
_IDLE_S = 1.0
_RETRY_S = 0.05
# Every so many skipped checkpoints one WARNING, because changelogs grow meanwhile.
_TOLD = (10, 100, 1_000, 10_000)
# Failures that say nothing about the storage: the next checkpoint may succeed.
_NOT_COUNTED = (DeclinedError, InterruptedSnapshotError, SupersededError)


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
            attempt = CheckpointAttempt(
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
