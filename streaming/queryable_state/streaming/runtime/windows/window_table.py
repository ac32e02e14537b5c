"""Table of the distinct pairs of a key and a window of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.states.cached_state import CurrentKey
from queryable_state.wire.keys.store_keys import window_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.key_table import KeyTable


class WindowTable:
    """Slots of keys and windows, numbered from 0 in the order in which they are added.

    A window is the namespace of its state. The states of the table grow with it, so a slot may be
    added at any time. `chunk_slots` are the slots that a read fetches together.
    """

    def __init__(self, keys: KeyTable) -> None:
        self.current = CurrentKey()
        """The slot to which the states of the table refer."""
        self.key_slots: list[int] = []
        """The slot of each slot's key in the table of keys."""
        self.namespaces: list[bytes] = []
        """The window of each slot."""
        self.chunk_slots: list[int] = []
        self._keys = keys
        self._states: Sequence[CachedState] = ()
        self._slot_of: dict[tuple[int, bytes], int] = {}

    def __len__(self) -> int:
        return len(self.key_slots)

    def bind(self, states: Iterable[CachedState]) -> None:
        """Sets the states that have the slots of this table."""
        self._states = list(states)
        self._grow()

    def slot(self, key_slot: int, namespace: bytes, *, stored: bool = True) -> int:
        """The slot of a key and a window; adds a new one to the chunk.

        `stored`: a new one may have state from before the batch. Otherwise it is never fetched.
        """
        slot = self._slot_of.get((key_slot, namespace))
        if slot is None:
            slot = self._add(key_slot, namespace)
            self._grow()
            if stored:
                self.chunk_slots.append(slot)
            else:
                for state in self._states:
                    state.take_absent((slot,))
        return slot

    def start_chunk(self, pairs: Iterable[tuple[int, bytes]]) -> list[int]:
        """Makes these pairs of a key's slot and a window the chunk; returns the slot of each."""
        slots = []
        known = self._slot_of.get
        for pair in pairs:
            slot = known(pair)
            slots.append(self._add(*pair) if slot is None else slot)
        self.chunk_slots = list(dict.fromkeys(slots))
        self._grow()
        return slots

    def prefix(self, slot: int) -> bytes:
        """Wire key and namespace of a slot: the store key without the element."""
        return self._keys.wire_keys[self.key_slots[slot]] + self.namespaces[slot]

    def prefixes(self, slots: Sequence[int]) -> list[bytes]:
        """The prefix of each of these slots."""
        return [self.prefix(slot) for slot in slots]

    def shown(self, slot: int) -> str:
        """The key, and the window if there is one, for error texts."""
        key = self._keys.shown(self.key_slots[slot])
        window = window_of(self.namespaces[slot])
        return key if window is None else f"{key}, window {window[0]} to {window[1]}"

    def _add(self, key_slot: int, namespace: bytes) -> int:
        slot = self._slot_of[key_slot, namespace] = len(self.key_slots)
        self.key_slots.append(key_slot)
        self.namespaces.append(namespace)
        return slot

    def _grow(self) -> None:
        for state in self._states:
            state.grow(len(self.key_slots))
