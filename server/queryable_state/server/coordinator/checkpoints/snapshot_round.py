"""One snapshot round: all state servers of a job write their stores as of one batch."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, checkpoint_pb2
from queryable_state.server.coordinator.checkpoints.history import InterruptedSnapshotError
from queryable_state.server.coordinator.servers.state_server_clients import UnreachableError
from queryable_state.wire.errors import (
    CheckpointError,
    PlacementError,
    QueryableStateError,
    Reason,
    SupersededError,
)

if TYPE_CHECKING:
    from queryable_state.server.coordinator.checkpoints.snapshot_plan import SnapshotPlan
    from queryable_state.server.coordinator.checkpoints.snapshots import Snapshots
    from queryable_state.server.coordinator.servers.state_server_clients import (
        SnapshotCall,
        StateServerClients,
    )

_LOOK_S = 0.25


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


class SnapshotRound:
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
