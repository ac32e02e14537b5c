"""Table of the distinct pairs of a key and a time window of a task, in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.states.key_table import distinct_rows
from queryable_state.wire.keys.store_keys import window_namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.runtime.aggregates.time_windows import Millis
    from queryable_state.streaming.runtime.states.key_table import KeyTable, Slots

_KEY_BITS: Final = 32


class WindowSlots:
    """Slots of keys and windows of one size, numbered from 0 in the order in which they are added.

    It is a `SlotTable` without Python work per row: rows are reduced to distinct pairs first.
    """

    def __init__(self, keys: KeyTable, size_ms: int) -> None:
        self.key_slots: Slots = np.empty(0, dtype=np.int64)
        """The slot of each slot's key in the table of keys."""
        self.starts: Millis = np.empty(0, dtype=np.int64)
        """The start of each slot's window, in milliseconds since the epoch."""
        self.chunk_slots: Sequence[int] = ()
        self._keys = keys
        self._size_ms = size_ms
        self._window_of: dict[int, int] = {}
        """Number of each window by its start."""
        self._namespaces: list[bytes] = []
        """Namespace of each window by its number."""
        self._slot_of: dict[int, int] = {}
        """Slot by window number and key slot in one integer."""
        self._prefixes: list[bytes] = []
        """Prefixes of the first slots; computed when they are read."""

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> Millis:
        """The end of each slot's window, exclusive."""
        return self.starts + self._size_ms

    def add(self, key_slots: Slots, starts: Millis) -> Slots:
        """The slot of each pair of a key's slot and the start of a window; adds new ones."""
        if not len(starts):
            return np.empty(0, dtype=np.int64)
        windows, firsts = distinct_rows([pa.array(starts)])
        numbers = np.array([self._window(start) for start in starts[firsts].tolist()])
        pairs = (numbers[windows] << _KEY_BITS) + key_slots
        codes, firsts = distinct_rows([pa.array(pairs)])
        slot_of, count = self._slot_of, len(self)
        found = pairs[firsts].tolist()
        slots = [slot_of.get(pair, -1) for pair in found]
        distinct: Slots = np.array(slots, dtype=np.int64)
        unknown = np.flatnonzero(distinct < 0)
        distinct[unknown] = range(count, count + len(unknown))
        for position, slot in zip(unknown.tolist(), distinct[unknown].tolist(), strict=True):
            slot_of[found[position]] = slot
        new = firsts[unknown]
        self.key_slots = np.concatenate((self.key_slots, key_slots[new]))
        self.starts = np.concatenate((self.starts, starts[new]))
        return distinct[codes]

    def prefixes(self, slots: Sequence[int]) -> list[bytes]:
        """Wire key and namespace of each slot."""
        known = self._prefixes
        if len(known) < len(self):
            wire_keys, namespaces, window_of = (
                self._keys.wire_keys,
                self._namespaces,
                self._window_of,
            )
            new = slice(len(known), None)
            pairs = zip(self.key_slots[new].tolist(), self.starts[new].tolist(), strict=True)
            known += [wire_keys[key] + namespaces[window_of[start]] for key, start in pairs]
        return [known[slot] for slot in slots]

    def prefix(self, slot: int) -> bytes:
        return self.prefixes([slot])[0]

    def shown(self, slot: int) -> str:
        start = int(self.starts[slot])
        key = self._keys.shown(int(self.key_slots[slot]))
        return f"{key}, window {start} to {start + self._size_ms}"

    def _window(self, start: int) -> int:
        number = self._window_of.get(start)
        if number is None:
            number = self._window_of[start] = len(self._namespaces)
            self._namespaces.append(window_namespace(start, start + self._size_ms))
        return number
