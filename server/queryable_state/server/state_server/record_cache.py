"""The records of one state that queries read, kept in front of its stores."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from queryable_state.wire.values import HAS_EXPIRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.storage.overlay import StateOverlay

CAPACITY_BYTES = 64 * 1024 * 1024
_RECORD_OVERHEAD_BYTES = 300
"""Two `bytes` objects and their place in the dictionary, about."""

# To drop more keys one by one takes longer than to read what is asked for anew.
_MOST_DROPPED_SINGLY = 4096


class RecordCache:
    """Committed records by store key, over all stores of the state on this server.

    On the event loop alone: what is kept was read in the turn in which it was committed, and
    every commit tells which records it has written. So many keys are answered by one look at
    a dictionary, whichever stores have them and whatever lies over their bases.

    A key without a record is not kept, to learn that again is cheap; nor is what may expire,
    so that nothing that is kept has to be judged.
    """

    __slots__ = ("_bytes", "_capacity_bytes", "_records")

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._records: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: bytes) -> bytes | None:
        """The record under a store key; None: it is not known here."""
        return self._records.get(key)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The records aligned with `keys`; None where one is not known here."""
        return list(map(self._records.get, keys))

    def keep(self, key: bytes, value: bytes) -> None:
        """Keeps a committed record that was just read; those kept longest make room."""
        records = self._records
        if value[0] & HAS_EXPIRY or key in records:
            return
        records[key] = value
        self._bytes += _size_of(key, value)
        while self._bytes > self._capacity_bytes:
            self._bytes -= _size_of(*records.popitem(last=False))

    def wrote(self, changes: StateOverlay) -> None:
        """Drops what a commit has changed, in the turn in which it does."""
        if not self._records:
            return
        if changes.cleared or len(changes.records) > _MOST_DROPPED_SINGLY:
            self.clear()
            return
        drop = self._records.pop
        for key in changes.records:
            value = drop(key, None)
            if value is not None:
                self._bytes -= _size_of(key, value)

    def clear(self) -> None:
        """Drops everything."""
        self._records = OrderedDict()
        self._bytes = 0


def _size_of(key: bytes, value: bytes) -> int:
    return len(key) + len(value) + _RECORD_OVERHEAD_BYTES
