"""In-memory state backend of one query, for tests."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.state_server.batches.fetches import read_fetches
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.v1 import query_pb2
from queryable_state.wire.changes import BlockSums, Token, read_block, record_count
from queryable_state.wire.errors import Reason, SupersededError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.v1.registration_pb2 import StateKind, StateRegistration
    from queryable_state.wire.changes import Seal


class InMemoryStateBackend:
    """Stores, seals and versions as on a state server, without a server, lease or coordinator.

    Used from one thread. Every version stays readable, so any batch can be replayed.
    """

    def __init__(self, *, timestamp_ms: int = 1_000, watermark_ms: int = 0) -> None:
        self.query_id = uuid.uuid4().bytes
        self.run_id = uuid.uuid4().bytes
        self.secret = "unused"
        self.timestamp_ms = timestamp_ms
        """Timestamp of later batches."""
        self.watermark_ms = watermark_ms
        """Watermark of later batches."""
        self.run_epoch = 1
        self.fetches: list[backend_pb2.StateFetch] = []
        """All received fetches, oldest first."""
        self.fetch_calls = 0
        self.seals: dict[tuple[str, int, int], list[Seal]] = {}
        """Accepted seals by (uid, subtask, batch)."""
        self._stores: dict[tuple[str, int], HeapStateStore] = {}
        self._registrations: dict[tuple[str, str], StateRegistration] = {}

    def access(self, spec: OperatorSpec, task: TaskIdentity) -> InMemoryAccess:
        """State access of one task attempt."""
        return InMemoryAccess(self, spec, task)

    def commit(self, batch_id: int) -> None:
        """Commits a batch on every subtask."""
        for store in self._stores.values():
            store.commit(batch_id)

    def registration(self, uid: str, state_name: str) -> StateRegistration:
        """The registration of a state; raises KeyError if there is none."""
        return self._registrations[uid, state_name]

    def register(self, state: StateRegistration) -> StateRegistration:
        """Registers a state; returns it with its id, which is stable."""
        key = (state.operator_uid, state.state_name)
        if key not in self._registrations:
            state.state_id = len(self._registrations) + 1
            self._registrations[key] = state
        known = self._registrations[key]
        # A restart may change the TTL; `known` has the state's id.
        known.ttl.CopyFrom(state.ttl)
        return known

    def kinds(self) -> dict[int, StateKind.ValueType]:
        """The kinds of all states, by id."""
        return {state.state_id: state.kind for state in self._registrations.values()}

    def operator_state(self, uid: str, subtask: int, state_name: str) -> list[bytes]:
        """The committed elements of an operator state of a subtask."""
        state_id = self._registrations[uid, state_name].state_id
        return self.store(uid, subtask).operator_state(state_id)

    def store(self, uid: str, subtask: int) -> HeapStateStore:
        """The store of a subtask, with all states of its operator."""
        store = self._stores.setdefault((uid, subtask), HeapStateStore())
        for (owner, _), registration in self._registrations.items():
            if owner == uid:
                store.add_state(registration.state_id)
        return store

    def records(self, uid: str, subtask: int, state_name: str, prefix: bytes) -> query_pb2.Records:
        """The committed records of a state under a prefix of store keys."""
        state_id = self._registrations[uid, state_name].state_id
        found = self.store(uid, subtask).prefix(state_id, prefix)
        return _records(found, prefix)


class InMemoryAccess:
    """`StateAccess` of one task attempt."""

    def __init__(
        self, backend: InMemoryStateBackend, spec: OperatorSpec, task: TaskIdentity
    ) -> None:
        self._backend = backend
        self._spec = spec
        self._task = task
        self._token = Token(run_epoch=backend.run_epoch, task_attempt=task.task_attempt)

    def begin(self, states: Sequence[StateRegistration]) -> backend_pb2.BeginResponse:
        registered = [self._backend.register(state) for state in states]
        store = self._store()
        # A batch begins only after all earlier batches are committed.
        store.commit(self._task.batch_id - 1)
        return backend_pb2.BeginResponse(
            token=self._token,
            batch_timestamp_ms=self._backend.timestamp_ms,
            watermark_ms=self._backend.watermark_ms,
            states=registered,
            sealed_before=store.staged_version == self._task.batch_id,
        )

    def fetch(self, fetches: Sequence[backend_pb2.StateFetch]) -> Sequence[backend_pb2.StateValues]:
        self._backend.fetch_calls += 1
        self._backend.fetches += fetches
        store, version = self._store(), self._task.batch_id - 1
        return read_fetches(store, version, fetches, self._backend.kinds()).results

    def prepare(self, blocks: Sequence[bytes], seal: Seal) -> None:
        task, sums, overlay = self._task, BlockSums(), OverlayBuilder()
        for data in blocks:
            block = read_block(data)
            sums.add(data, record_count(block))
            overlay.add_block(block)
        sums.verify(seal)
        if task.batch_id <= self._store().committed_version:
            raise SupersededError(
                f"batch {task.batch_id} is committed", reason=Reason.ALREADY_COMMITTED
            )
        token = (seal.token.run_epoch, seal.token.task_attempt)
        self._store().seal(task.batch_id, overlay.build(), token)
        key = (self._spec.uid, task.subtask, task.batch_id)
        self._backend.seals.setdefault(key, []).append(seal)

    def _store(self) -> HeapStateStore:
        return self._backend.store(self._spec.uid, self._task.subtask)


def _records(found: Sequence[tuple[bytes, bytes]], prefix: bytes) -> query_pb2.Records:
    return query_pb2.Records(
        elements=[key[len(prefix) :] for key, _ in found], values=[value for _, value in found]
    )
