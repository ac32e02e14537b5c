"""Cache of the records of one state, in front of its stores."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from queryable_state.wire.values.value_codec import HAS_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.server.storage.overlay import StateOverlay

CAPACITY_BYTES = 64 * 1024 * 1024

ABSENT = b""
"""Marks a key as absent. No record equals it, because every record has a header."""
_RECORD_OVERHEAD_BYTES = 300
"""Approximate overhead of an entry: two `bytes` objects and their place in the dictionary."""

# Going through more keys in one turn would block the event loop.
_MOST_CHANGED_SINGLY = 4096


class RecordCache:
    """Committed records by store key, or `ABSENT`, of all stores of a state on this server.

    For the event loop only. Reads fill the cache in the turn in which they read, and every
    commit writes its records through, so an entry is always the committed record. Most keys
    are answered by one dictionary look-up, without reading through overlays and bases.

    Records with a timestamp, which may expire, are not cached: no entry needs a check.
    """

    __slots__ = ("_bytes", "_capacity_bytes", "_records", "get")

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._records: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0
        self.get: Callable[[bytes], bytes | None] = self._records.get
        """Returns the record under a store key, or `ABSENT`; None if it is not cached."""

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Returns what `get` returns for each key, in the order of `keys`."""
        return list(map(self.get, keys))

    def keep(self, key: bytes, value: bytes) -> None:
        """Caches a committed record, or `ABSENT`, that was just read; evicts the oldest entries."""
        records = self._records
        if (value and value[0] & HAS_TIMESTAMP) or key in records:
            return
        records[key] = value
        self._bytes += _size_of(key, value)
        self._make_room()

    def wrote(self, changes: StateOverlay) -> None:
        """Applies the changes of a commit, in the same turn of the loop."""
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
            if value and value[0] & HAS_TIMESTAMP:
                del records[key]
                self._bytes -= _size_of(key, before)
            else:
                records[key] = value
                self._bytes += len(value) - len(before)
        self._make_room()

    def clear(self) -> None:
        """Removes all entries."""
        self._records = OrderedDict()
        self.get = self._records.get
        self._bytes = 0

    def _make_room(self) -> None:
        while self._bytes > self._capacity_bytes:
            self._bytes -= _size_of(*self._records.popitem(last=False))


def _size_of(key: bytes, value: bytes) -> int:
    return len(key) + len(value) + _RECORD_OVERHEAD_BYTES
