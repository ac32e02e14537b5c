"""The records of one state that queries read, kept in front of its stores."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from queryable_state.wire.values.value_codec import HAS_EXPIRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.storage.overlay import StateOverlay

CAPACITY_BYTES = 64 * 1024 * 1024

ABSENT = b""
"""Stands for the record of a key that has none: no record is empty, it has a header."""
_RECORD_OVERHEAD_BYTES = 300
"""Two `bytes` objects and their place in the dictionary, about."""

# To go through more keys in one turn holds everybody up.
_MOST_CHANGED_SINGLY = 4096


class RecordCache:
    """Committed records by store key, or that there is none, over all stores of the state here.

    On the event loop alone: what is kept was read in the turn in which it was committed, and
    every commit tells which records it has written. So many keys are answered by one look at
    a dictionary, whichever stores have them and whatever lies over their bases.

    What may expire is not kept, so that nothing that is kept has to be judged.
    """

    __slots__ = ("_bytes", "_capacity_bytes", "_records")

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._records: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, key: bytes) -> bytes | None:
        """The record under a store key, or `ABSENT`; None: it is not known here."""
        return self._records.get(key)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """What `get` says of each key, aligned with `keys`."""
        return list(map(self._records.get, keys))

    def keep(self, key: bytes, value: bytes) -> None:
        """Keeps a committed record, or `ABSENT`, just read; those kept longest make room."""
        records = self._records
        if (value and value[0] & HAS_EXPIRY) or key in records:
            return
        records[key] = value
        self._bytes += _size_of(key, value)
        self._make_room()

    def wrote(self, changes: StateOverlay) -> None:
        """Takes over what a commit has changed, in the turn in which it does."""
        records, written = self._records, changes.records
        if changes.cleared or min(len(records), len(written)) > _MOST_CHANGED_SINGLY:
            self.clear()
            return
        if len(records) < len(written):
            changed = [key for key in records if key in written]
        else:
            changed = [key for key in written if key in records]
        for key in changed:
            before, value = records[key], written[key] or ABSENT
            if value and value[0] & HAS_EXPIRY:
                del records[key]
                self._bytes -= _size_of(key, before)
            else:
                records[key] = value
                self._bytes += len(value) - len(before)
        self._make_room()

    def clear(self) -> None:
        """Drops everything."""
        self._records = OrderedDict()
        self._bytes = 0

    def _make_room(self) -> None:
        while self._bytes > self._capacity_bytes:
            self._bytes -= _size_of(*self._records.popitem(last=False))


def _size_of(key: bytes, value: bytes) -> int:
    return len(key) + len(value) + _RECORD_OVERHEAD_BYTES
