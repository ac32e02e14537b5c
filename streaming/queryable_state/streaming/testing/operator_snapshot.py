"""Committed state of one operator, taken from a harness and restored at any parallelism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.operator_states import redistributed
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.keys.key_groups import subtask_of
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from queryable_state.v1.registration_pb2 import StateRegistration


@dataclass(frozen=True, kw_only=True)
class StateSnapshot:
    """One state of all subtasks; either `records` or `lists` is empty."""

    registration: StateRegistration
    records: tuple[tuple[bytes, bytes], ...] = ()
    """Store keys and values of a keyed state, in key order."""
    lists: Mapping[int, tuple[bytes, ...]]
    """The elements of an operator state, by subtask."""


@dataclass(frozen=True, kw_only=True)
class OperatorSnapshot:
    """The state of an operator as of a committed batch.

    A restore moves keyed state with its key groups. It deals the elements of a list state out
    round-robin, and gives every subtask all elements of a union list and of a broadcast state.
    """

    batch_id: int
    """The newest committed batch; -1: there is none."""
    max_parallelism: int
    states: tuple[StateSnapshot, ...]

    def stores(
        self, parallelism: int, state_id: Callable[[StateRegistration], int]
    ) -> list[HeapStateStore]:
        """New stores with this state, one for each subtask; `state_id` registers a state."""
        stores = [HeapStateStore(self.batch_id) for _ in range(parallelism)]
        lists: list[dict[int, tuple[bytes, ...]]] = [{} for _ in stores]
        for state in self.states:
            number, kind = state_id(state.registration), state.registration.kind
            for store in stores:
                store.add_state(number, timers=kind == StateKind.TIMER)
            if kind in OPERATOR_KINDS:
                for index, own in enumerate(lists):
                    own[number] = redistributed(
                        kind, state.lists, index=index, parallelism=parallelism
                    )
                continue
            parts: list[list[tuple[bytes, bytes]]] = [[] for _ in stores]
            for key, value in state.records:
                group = int.from_bytes(key[:2], "big")
                parts[subtask_of(group, parallelism, self.max_parallelism)].append((key, value))
            for store, part in zip(stores, parts, strict=True):
                with store.bulk_load() as load:
                    load.put(number, part)
        for store, own in zip(stores, lists, strict=True):
            store.load_operator_states(own)
        return stores
