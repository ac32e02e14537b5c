"""Writer of snapshots, one at a time for each job: the servers' files, and their metadata.

Checkpoints and savepoints are snapshots in different folders.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from queryable_state.internal.v1 import backend_pb2, checkpoint_pb2
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.coordinator.checkpoints.history import (
    DeclinedError,
    InterruptedSnapshotError,
)
from queryable_state.server.coordinator.servers.state_server_clients import UnreachableError
from queryable_state.v1 import status_pb2
from queryable_state.wire.errors import (
    CheckpointError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata, RangeSnapshot
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.coordinator.checkpoints.snapshots import SnapshotPlan, Snapshots
    from queryable_state.server.coordinator.model.engine import BatchClocks, Engine
    from queryable_state.server.coordinator.servers.state_server_clients import (
        SnapshotCall,
        StateServerClients,
    )


_T = TypeVar("_T")

# Longer than a publication and a heartbeat together: a healthy server has acked by then.
_STABLE_S = 5.0
_RETRY_S = 0.05
_LOOK_S = 0.25
_METADATA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class SnapshotTarget:
    """Target of a snapshot: its folders, id and format."""

    checkpoint_id: int
    """0: a savepoint."""
    root: str
    """URI of the job's state root, or of the savepoint."""
    directory: str
    """Folder under it for files of this snapshot alone; empty: the root itself."""
    shared_directory: str
    """Folder under it for files that checkpoints share; empty: none are shared."""
    format: checkpoint_pb2.SnapshotFormat.ValueType
    """UNSPECIFIED: each store chooses."""


@dataclass(frozen=True)
class _Said:
    server_id: str
    event: backend_pb2.SnapshotEvent | None
    """None: the server has sent its last event."""
    failure: QueryableStateError | None = None


class _SnapshotRound:
    """One snapshot of a job: the calls to its servers, at once, and what they answer.

    The cap of the plan is lifted as soon as all stores are cut, or nothing comes of it. `run`
    is called once; `cancel` may be at any time, from any thread.
    """

    def __init__(
        self,
        clients: StateServerClients,
        snapshots: Snapshots,
        plan: SnapshotPlan,
        target: SnapshotTarget,
    ) -> None:
        self._clients = clients
        self._snapshots = snapshots
        self._plan = plan
        self._target = target
        self._said: queue.SimpleQueue[_Said] = queue.SimpleQueue()
        self._cutting = set(plan.servers)
        self._writing = set(plan.servers)
        self._ranges: dict[tuple[str, int], checkpoint_pb2.RangeSnapshot] = {}

    @property
    def progress(self) -> tuple[int, int]:
        """Subtasks that are written, and all."""
        return len(self._ranges), sum(len(s.subtasks) for s in self._plan.servers.values())

    @property
    def target(self) -> SnapshotTarget:
        """Where it is written."""
        return self._target

    def cancel(self, reason: str) -> None:
        """Makes `run` give up."""
        self._said.put(_Said("", None, InterruptedSnapshotError(reason)))

    def run(self, timeout_s: float) -> list[checkpoint_pb2.RangeSnapshot]:
        """All subtasks written, by operator and index.

        CheckpointError where a server could not write, sent something else or took too long;
        InterruptedSnapshotError where a server is gone or the round was cancelled.
        """
        begun_s = time.monotonic()
        calls: list[SnapshotCall] = []
        threads: list[threading.Thread] = []
        try:
            for server_id, planned in self._plan.servers.items():
                call = self._clients.snapshot(planned.address, self._request(server_id), timeout_s)
                calls.append(call)
                threads.append(
                    threading.Thread(
                        target=self._listen,
                        args=(server_id, call),
                        name="queryable-state-snapshot",
                        daemon=True,
                    )
                )
                threads[-1].start()
            while self._writing:
                self._wait(begun_s, timeout_s)
        finally:
            self._snapshots.lift(self._plan)
            for call in calls:
                call.cancel()
            for thread in threads:
                thread.join()
        return [self._ranges[key] for key in sorted(self._ranges)]

    def _request(self, server_id: str) -> backend_pb2.SnapshotRequest:
        return backend_pb2.SnapshotRequest(
            query_id=self._plan.query_id,
            checkpoint_id=self._target.checkpoint_id,
            version=self._plan.version,
            subtasks=self._plan.servers[server_id].subtasks,
            format=self._target.format,
            root=self._target.root,
            directory=self._target.directory,
            shared_directory=self._target.shared_directory,
        )

    def _listen(self, server_id: str, call: SnapshotCall) -> None:
        try:
            for event in call:
                self._said.put(_Said(server_id, event))
        except QueryableStateError as failure:
            self._said.put(_Said(server_id, None, failure))
        else:
            self._said.put(_Said(server_id, None))

    def _wait(self, begun_s: float, timeout_s: float) -> None:
        left_s = begun_s + timeout_s - time.monotonic()
        try:
            said = self._said.get(timeout=max(0.0, min(_LOOK_S, left_s)))
        except queue.Empty:
            moved = self._snapshots.moved(self._plan, self._writing)
            if moved:
                raise InterruptedSnapshotError(
                    f"{moved} while it wrote {self._target.root}"
                ) from None
            if left_s <= 0:
                raise self._too_late(timeout_s) from None
            return
        if said.failure is not None:
            raise self._failed(said, said.failure, timeout_s)
        if said.event is None:
            self._end(said.server_id)
        elif said.event.WhichOneof("event") == "cut":
            self._cutting.discard(said.server_id)
            if not self._cutting:
                self._snapshots.lift(self._plan)
        else:
            self._take(said.server_id, said.event.range)

    def _take(self, server_id: str, written: checkpoint_pb2.RangeSnapshot) -> None:
        for subtask in self._plan.servers[server_id].subtasks:
            if (subtask.operator_uid, subtask.index) == (written.operator_uid, written.index):
                self._ranges[written.operator_uid, written.index] = written
                return
        raise CheckpointError(
            f"state server {server_id} wrote subtask {written.index} of operator "
            f"{written.operator_uid!r}, which it was not asked for"
        )

    def _end(self, server_id: str) -> None:
        asked = {(s.operator_uid, s.index) for s in self._plan.servers[server_id].subtasks}
        missing = sorted(asked - self._ranges.keys())
        if missing:
            uid, index = missing[0]
            raise CheckpointError(
                f"state server {server_id} ended without having written {len(missing)} subtasks, "
                f"among them subtask {index} of operator {uid!r}"
            )
        # What is written was cut, also where the server did not say so.
        self._cutting.discard(server_id)
        self._writing.discard(server_id)

    def _failed(
        self, said: _Said, failure: QueryableStateError, timeout_s: float
    ) -> CheckpointError:
        if isinstance(failure, InterruptedSnapshotError):
            return failure
        if failure.reason == Reason.DEADLINE_EXCEEDED:
            return self._too_late(timeout_s)
        where = f"state server {said.server_id}, writing {self._target.root}: {failure}"
        # Superseded: the store was reopened after the plan was made, at a later batch.
        gone = isinstance(failure, UnreachableError | PlacementError | SupersededError)
        if gone or failure.reason == Reason.BEHIND:
            return InterruptedSnapshotError(where)
        reason = failure.reason if failure.reason == Reason.STORAGE_WRITE_FAILED else None
        return CheckpointError(where, reason=reason)

    def _too_late(self, timeout_s: float) -> CheckpointError:
        return CheckpointError(
            f"not written within {timeout_s:.1f} s: {len(self._writing)} of "
            f"{len(self._plan.servers)} state servers are still at it; look at what "
            f"{self._target.root} is on, or allow more time (checkpoint timeout)"
        )


@dataclass(frozen=True)
class Written:
    """The files that the servers have written."""

    plan: SnapshotPlan
    clocks: BatchClocks
    ranges: Sequence[RangeSnapshot]

    def metadata(
        self,
        *,
        checkpoint_id: int,
        run_epoch: int,
        triggered_at_ms: int,
        duration_ms: int,
        registrations: str = "",
        timeline: checkpoint_pb2.Timeline | None = None,
        progress: checkpoint_pb2.EngineProgress | None = None,
    ) -> CheckpointMetadata:
        """The metadata of what was written; an id of 0: of a savepoint.

        `registrations` is the file name of those in force, and `progress` the engine's logs; a
        savepoint needs neither. `timeline` is that of the job, None for the one it began with.
        """
        operators = [
            checkpoint_pb2.OperatorSnapshot(
                uid=operator.uid,
                name=operator.name,
                depth=operator.depth,
                parallelism=operator.parallelism,
                max_parallelism=operator.max_parallelism,
                states=operator.states,
                ranges=[written for written in self.ranges if written.operator_uid == operator.uid],
            )
            for operator in sorted(self.plan.operators, key=lambda operator: operator.uid)
        ]
        native = any(written.format == checkpoint_pb2.ROCKSDB for written in self.ranges)
        return checkpoint_pb2.CheckpointMetadata(
            format_version=_METADATA_VERSION,
            checkpoint_id=checkpoint_id,
            job_id=self.plan.query_id,
            job_name=self.plan.job_name,
            version=self.plan.version,
            commit_time_ms=self.plan.commit_time_ms,
            watermark_ms=self.clocks.watermark_ms,
            triggered_at_ms=triggered_at_ms,
            duration_ms=duration_ms,
            offsets_digest=self.clocks.offsets_digest,
            run_epoch=run_epoch,
            savepoint=checkpoint_id == 0,
            backend="rocksdb" if native else "heap",
            operators=operators,
            complete_since_batch=self.plan.complete_since,
            registrations=registrations,
            timeline=timeline,
            progress=progress,
        )


@dataclass(eq=False)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    round: _SnapshotRound | None = None
    refused: str = ""


class SnapshotWriter:
    """Makes the servers write snapshots. Blocks the caller's thread; thread-safe."""

    def __init__(self, engine: Engine, snapshots: Snapshots, clients: StateServerClients) -> None:
        self._engine = engine
        self._snapshots = snapshots
        self._clients = clients
        self._lock = threading.Lock()
        self._slots: dict[bytes, _Slot] = {}
        self._closed = ""

    @contextmanager
    def alone(self, query_id: bytes, timeout_s: float) -> Iterator[None]:
        """Waits until no other snapshot of the job is under way, and keeps it so.

        DeclinedError where that takes too long.
        """
        slot = self._slot(query_id)
        if not slot.lock.acquire(timeout=max(0.0, timeout_s)):
            raise DeclinedError(
                f"job {self._snapshots.label(query_id)}: another snapshot of it was under way for "
                f"{timeout_s:g} s; one is taken at a time"
            )
        try:
            yield
        finally:
            slot.lock.release()

    def write(
        self, query_id: bytes, target: Callable[[SnapshotPlan], SnapshotTarget], timeout_s: float
    ) -> Written:
        """Writes a snapshot; to be called within `alone`. `target` may do I/O.

        DeclinedError where the job cannot be written as a whole now, and nothing was begun.
        """
        deadline_s = time.monotonic() + timeout_s
        slot = self._slot(query_id)
        self._snapshots.await_published(query_id, min(_STABLE_S, timeout_s))
        with self._snapshots.planned(query_id) as plan:
            self._snapshots.await_min_acked(plan, min(_STABLE_S, timeout_s))
            clocks = self._clocks(plan)
            snapshot = _SnapshotRound(self._clients, self._snapshots, plan, target(plan))
            with self._lock:
                refused = self._closed or slot.refused
                if not refused:
                    slot.round = snapshot
            if refused:
                raise InterruptedSnapshotError(refused)
            try:
                ranges = snapshot.run(deadline_s - time.monotonic())
            finally:
                with self._lock:
                    slot.round = None
        return Written(plan, clocks, ranges)

    def write_when_open(
        self, query_id: bytes, target: Callable[[SnapshotPlan], SnapshotTarget], deadline_s: float
    ) -> Written:
        """Same as `write`, retried until the job can be written, or the deadline."""
        return self._retrying(
            lambda: self.write(query_id, target, deadline_s - time.monotonic()), deadline_s
        )

    def await_open(self, query_id: bytes, deadline_s: float) -> None:
        """Waits until the job could be written as a whole; DeclinedError after the deadline."""
        self._retrying(lambda: self._look(query_id), deadline_s)

    @contextmanager
    def refused(self, query_id: bytes, reason: str) -> Iterator[None]:
        """Cancels a snapshot of the job in progress, and allows none inside the context."""
        slot = self._slot(query_id)
        with self._lock:
            slot.refused = reason
            if slot.round is not None:
                slot.round.cancel(reason)
        try:
            yield
        finally:
            with self._lock:
                slot.refused = ""

    def progress(self, query_id: bytes) -> status_pb2.SnapshotProgress | None:
        """The snapshot of a job that is being written; None if there is none."""
        with self._lock:
            slot = self._slots.get(query_id)
            snapshot = None if slot is None else slot.round
        if snapshot is None:
            return None
        done, ranges = snapshot.progress
        target = snapshot.target
        return status_pb2.SnapshotProgress(
            savepoint=not target.checkpoint_id,
            path=f"{target.root}/{target.directory}".rstrip("/"),
            ranges_done=done,
            ranges=ranges,
        )

    def close(self) -> None:
        """Cancels all snapshots, and allows no more."""
        reason = "the coordinator stops"
        with self._lock:
            self._closed = reason
            for slot in self._slots.values():
                if slot.round is not None:
                    slot.round.cancel(reason)

    def _look(self, query_id: bytes) -> None:
        with self._snapshots.planned(query_id):
            pass

    def _retrying(self, what: Callable[[], _T], deadline_s: float) -> _T:
        while True:
            try:
                return what()
            except DeclinedError:
                if time.monotonic() + _RETRY_S >= deadline_s or self._closed:
                    raise
                time.sleep(_RETRY_S)

    def _clocks(self, plan: SnapshotPlan) -> BatchClocks:
        try:
            return self._engine.clocks(plan.query_id, plan.version)
        except RetryLaterError as problem:
            raise DeclinedError(f"job {plan.label}: {problem}") from problem

    def _slot(self, query_id: bytes) -> _Slot:
        with self._lock:
            return self._slots.setdefault(query_id, _Slot())


def size_bytes(metadata: CheckpointMetadata) -> int:
    """Of all files it names and what it has inlined."""
    return sum(len(file.inlined) if not file.path else file.size_bytes for file in _files(metadata))


def new_bytes(metadata: CheckpointMetadata) -> int:
    """Of what was written for it."""
    return sum(written.new_bytes for op in metadata.operators for written in op.ranges)


def check_files(
    metadata: CheckpointMetadata, storage: CheckpointStorage, target: SnapshotTarget
) -> None:
    """CheckpointError unless every file that is named is where it is named, in its size.

    A server that takes a shared file for stored which is not would else make a checkpoint that
    cannot be read.
    """
    folders = {target.directory, target.shared_directory} - {""} or {""}
    there = {
        f"{folder}/{entry.path}" if folder else entry.path: entry.size_bytes
        for folder in folders
        for entry in storage.walk(join(target.root, folder) if folder else target.root)
    }
    for file in _files(metadata):
        if file.path and there.get(file.path) != file.size_bytes:
            found = there.get(file.path)
            raise CheckpointError(
                f"{join(target.root, file.path)} should have {file.size_bytes} bytes and "
                + ("is not there" if found is None else f"has {found}")
                + ": something else removes or changes files of the checkpoint directory"
            )


def shared_files(checkpoints: Sequence[CheckpointMetadata], folder: str) -> set[str]:
    """Names of the files in the shared folder that any of these checkpoints names."""
    prefix = f"{folder}/"
    return {
        file.path.removeprefix(prefix)
        for metadata in checkpoints
        for file in _files(metadata)
        if file.path.startswith(prefix)
    }


def _files(metadata: CheckpointMetadata) -> Iterator[checkpoint_pb2.StoredFile]:
    for operator in metadata.operators:
        for written in operator.ranges:
            yield from written.files
