"""The records of one state that queries read, in front of a base that takes longer to read."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_RECORD_OVERHEAD_BYTES = 300
"""Two `bytes` objects and their place in the dictionary, about."""


class RecordCache:
    """Keeps what was read until so many bytes came after it.

    `get` runs on the event loop alone, with the stack of that turn: what is being folded is
    hidden by its overlay, so that nobody reads and keeps a record that `wrote`, on the bulk
    thread, is about to drop. A key without a record is not kept: to learn that from the base
    is cheap.
    """

    __slots__ = ("_capacity_bytes", "_dropped_bytes", "_read", "_records", "_taken_bytes")

    def __init__(self, read: Callable[[bytes], bytes | None], capacity_bytes: int) -> None:
        self._read = read
        self._capacity_bytes = capacity_bytes
        self._records: OrderedDict[bytes, bytes] = OrderedDict()
        # What was taken in and not evicted, and what of it was dropped since: a thread each.
        self._taken_bytes = 0
        self._dropped_bytes = 0

    def get(self, key: bytes) -> bytes | None:
        """The value under a key; None: there is none."""
        value = self._records.get(key)
        return self._take(key) if value is None else value

    def wrote(self, keys: Iterable[bytes]) -> None:
        """Drops records that the base has anew, before anybody asks it for them."""
        drop = self._records.pop
        for key in keys:
            value = drop(key, None)
            if value is not None:
                self._dropped_bytes += _size_of(key, value)

    def _take(self, key: bytes) -> bytes | None:
        value = self._read(key)
        if value is None:
            return None
        records = self._records
        records[key] = value
        self._taken_bytes += _size_of(key, value)
        while records and self._taken_bytes - self._dropped_bytes > self._capacity_bytes:
            self._taken_bytes -= _size_of(*records.popitem(last=False))
        return value


def _size_of(key: bytes, value: bytes) -> int:
    return len(key) + len(value) + _RECORD_OVERHEAD_BYTES
