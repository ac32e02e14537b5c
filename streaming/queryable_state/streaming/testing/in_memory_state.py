"""In-memory state backend of one query, for tests."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.state_server.batches.fetches import read_fetches
from queryable_state.server.state_server.stores.due_timers import due_query, first_due, timer_state
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.streaming.testing.operator_snapshot import OperatorSnapshot, StateSnapshot
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.changes import BlockSums, Token, read_block, record_count
from queryable_state.wire.errors import (
    InvalidRequestError,
    Reason,
    SupersededError,
    UnknownStateError,
)
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.v1.registration_pb2 import StateRegistration
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
        self.due_limit = 1_000
        """Maximum number of due timers in the answer to a begin."""
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

    def registration(self, uid: str, name: str) -> StateRegistration:
        """The registration of a state by its name or its queryable name.

        Raises UnknownStateError if there is none.
        """
        own = self._states(uid)
        for state in own:
            if name == state.state_name:
                return state
        for state in own:
            if name == state.queryable_name:
                return state
        known = ", ".join(map(_shown_names, own)) or "none; states are registered by the first run"
        raise UnknownStateError(f"operator {uid!r} has no state {name!r}. Its states: {known}")

    def has_state(self, uid: str, name: str) -> bool:
        """True if the operator has registered a state of this name."""
        return (uid, name) in self._registrations

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

    def snapshot(self, uid: str, parallelism: int, max_parallelism: int) -> OperatorSnapshot:
        """The committed state of an operator that runs at this parallelism."""
        stores = {subtask: self.store(uid, subtask) for subtask in range(parallelism)}
        states = []
        for state in self._states(uid):
            records: list[tuple[bytes, bytes]] = []
            lists = {}
            for subtask, store in stores.items():
                if state.kind in OPERATOR_KINDS:
                    lists[subtask] = tuple(store.operator_state(state.state_id))
                else:
                    records += store.prefix(state.state_id, b"")
            states.append(
                StateSnapshot(registration=state, records=tuple(sorted(records)), lists=lists)
            )
        return OperatorSnapshot(
            batch_id=max(store.committed_version for store in stores.values()),
            max_parallelism=max_parallelism,
            states=tuple(states),
        )

    def restore(
        self, uid: str, snapshot: OperatorSnapshot, parallelism: int, max_parallelism: int
    ) -> None:
        """Replaces the state of an operator, in a new run; staged batches are dropped."""
        if snapshot.max_parallelism != max_parallelism:
            raise InvalidRequestError(
                f"operator {uid!r} has max_parallelism {max_parallelism}, but the snapshot was "
                f"taken at {snapshot.max_parallelism}, which is fixed for the life of the state"
            )
        self.run_id = uuid.uuid4().bytes
        self.run_epoch += 1
        for place in [place for place in self._stores if place[0] == uid]:
            del self._stores[place]
        stores = snapshot.stores(parallelism, lambda state: self._register_as(uid, state))
        self._stores.update({(uid, subtask): store for subtask, store in enumerate(stores)})

    def rescale(self, spec: OperatorSpec, parallelism: int) -> None:
        """Starts a new run, in which an operator has another parallelism."""
        taken = self.snapshot(spec.uid, spec.parallelism, spec.max_parallelism)
        self.restore(spec.uid, taken, parallelism, spec.max_parallelism)

    def operator_state(self, uid: str, subtask: int, name: str) -> list[bytes]:
        """The committed elements of an operator state of a subtask."""
        state_id = self.registration(uid, name).state_id
        return self.store(uid, subtask).operator_state(state_id)

    def store(self, uid: str, subtask: int) -> HeapStateStore:
        """The store of a subtask, with all states of its operator."""
        store = self._stores.setdefault((uid, subtask), HeapStateStore())
        for (owner, _), registration in self._registrations.items():
            if owner == uid:
                timers = registration.kind == StateKind.TIMER
                store.add_state(registration.state_id, timers=timers)
        return store

    def records(
        self, uid: str, subtask: int, name: str, prefix: bytes = b""
    ) -> list[tuple[bytes, bytes]]:
        """The committed records of a state under a prefix of store keys, in key order."""
        state_id = self.registration(uid, name).state_id
        return self.store(uid, subtask).prefix(state_id, prefix)

    def _states(self, uid: str) -> list[StateRegistration]:
        return [state for (owner, _), state in self._registrations.items() if owner == uid]

    def _register_as(self, uid: str, state: StateRegistration) -> int:
        """Registers a state of a snapshot for this operator; returns its id."""
        own = type(state)()
        own.CopyFrom(state)
        own.operator_uid, own.job_id = uid, self.query_id
        return self.register(own).state_id


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
            due=self._first_due(timer_state(registered)),
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

    def _first_due(self, timers: int | None) -> backend_pb2.DueTimers | None:
        if timers is None:
            return None
        query = due_query(self._backend.timestamp_ms, self._backend.watermark_ms)
        query.limit = self._backend.due_limit
        return first_due(self._store(), self._task.batch_id - 1, timers, query)

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


def _shown_names(state: StateRegistration) -> str:
    queryable = f" (queryable as {state.queryable_name!r})" if state.queryable_name else ""
    return f"{state.state_name!r}{queryable}"
