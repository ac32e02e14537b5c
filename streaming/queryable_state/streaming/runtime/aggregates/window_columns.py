"""Stored aggregates of a task by key and window."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.aggregates.window_slots import WindowSlots
from queryable_state.streaming.runtime.states.column_state import ColumnState
from queryable_state.streaming.runtime.states.key_table import KeyTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.v1.registration_pb2 import StateRegistration


class WindowColumns(ColumnState):
    """A columnar state whose slots are those of keys and windows."""

    def __init__(self, descriptor: StateDescriptor, size_ms: int) -> None:
        """`size_ms` is the size of all windows."""
        super().__init__(descriptor)
        self.slots: WindowSlots
        self._size_ms = size_ms
        self._registration: StateRegistration

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        keys = context.table
        assert isinstance(keys, KeyTable)
        self.slots = WindowSlots(keys, self._size_ms)
        self._registration = registration
        super().bind(registration, replace(context, table=self.slots))

    def at(self, prefixes: Sequence[bytes]) -> ColumnState:
        """The same state, to be read with the positions in these prefixes as slots."""
        reader = ColumnState(self.descriptor)
        reader.bind(self._registration, replace(self._context, table=_Prefixes(prefixes)))
        return reader


class _Prefixes:
    """A `SlotTable` of prefixes that are known already."""

    def __init__(self, prefixes: Sequence[bytes]) -> None:
        self.chunk_slots: Sequence[int] = ()
        self._prefixes = prefixes

    def __len__(self) -> int:
        return len(self._prefixes)

    def prefix(self, slot: int) -> bytes:
        return self._prefixes[slot]

    def prefixes(self, slots: Sequence[int]) -> list[bytes]:
        return [self._prefixes[slot] for slot in slots]

    def shown(self, slot: int) -> str:
        return self._prefixes[slot].hex()
