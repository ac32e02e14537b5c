"""Writer of snapshots, one at a time for each job."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from queryable_state.server.coordinator.checkpoints.history import (
    DeclinedError,
    InterruptedSnapshotError,
)
from queryable_state.server.coordinator.checkpoints.snapshot_round import SnapshotRound
from queryable_state.v1 import status_pb2
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import RangeSnapshot
    from queryable_state.server.coordinator.checkpoints.snapshot_plan import SnapshotPlan
    from queryable_state.server.coordinator.checkpoints.snapshot_round import SnapshotTarget
    from queryable_state.server.coordinator.checkpoints.snapshots import Snapshots
    from queryable_state.server.coordinator.model.engine import BatchClocks, Engine
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients

_T = TypeVar("_T")

# Longer than a publication and a heartbeat together: a healthy server has acked by then.
_STABLE_S = 5.0
_RETRY_S = 0.05


@dataclass(frozen=True)
class Written:
    """The files that the servers have written."""

    plan: SnapshotPlan
    clocks: BatchClocks
    ranges: Sequence[RangeSnapshot]


@dataclass(eq=False)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    round: SnapshotRound | None = None
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
            snapshot = SnapshotRound(self._clients, self._snapshots, plan, target(plan))
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
