"""Sorted set of keys with inserts and removals, for a backend without ordered records."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_BUCKET_KEYS = 1024
"""A bucket splits in two at twice this many keys, so that an insert moves few pointers."""
_RUN_KEYS = 4096
"""Keys sorted in one step, which holds the GIL."""


class SortedKeys:
    """A set of keys as a list of sorted buckets, none of them empty."""

    __slots__ = ("_buckets", "_last_keys")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        ordered = _sorted(keys)
        self._buckets = [
            ordered[first : first + _BUCKET_KEYS] for first in range(0, len(ordered), _BUCKET_KEYS)
        ]
        self._last_keys = [bucket[-1] for bucket in self._buckets]

    def add(self, key: bytes) -> None:
        """Inserts a key that is not in the set."""
        if not self._buckets:
            self._buckets.append([key])
            self._last_keys.append(key)
            return
        index = min(bisect_left(self._last_keys, key), len(self._buckets) - 1)
        bucket = self._buckets[index]
        insort(bucket, key)
        self._last_keys[index] = bucket[-1]
        if len(bucket) >= 2 * _BUCKET_KEYS:
            upper = bucket[_BUCKET_KEYS:]
            del bucket[_BUCKET_KEYS:]
            self._last_keys[index] = bucket[-1]
            self._buckets.insert(index + 1, upper)
            self._last_keys.insert(index + 1, upper[-1])

    def extend(self, ordered: list[bytes]) -> bool:
        """Appends sorted keys; returns False and changes nothing unless all are above the last."""
        if self._last_keys and ordered and ordered[0] <= self._last_keys[-1]:
            return False
        for first in range(0, len(ordered), _BUCKET_KEYS):
            bucket = ordered[first : first + _BUCKET_KEYS]
            self._buckets.append(bucket)
            self._last_keys.append(bucket[-1])
        return True

    def remove(self, key: bytes) -> None:
        """Removes a key that is in the set."""
        index = bisect_left(self._last_keys, key)
        bucket = self._buckets[index]
        del bucket[bisect_left(bucket, key)]
        if bucket:
            self._last_keys[index] = bucket[-1]
        else:
            del self._buckets[index]
            del self._last_keys[index]

    def slice(self, start: bytes, end: bytes | None, limit: int) -> list[bytes]:
        """The first `limit` keys with start <= key < end (None: no end)."""
        found: list[bytes] = []
        index = bisect_left(self._last_keys, start)
        while index < len(self._buckets) and len(found) < limit:
            bucket = self._buckets[index]
            first = bisect_left(bucket, start)
            last = len(bucket) if end is None else bisect_left(bucket, end)
            found += bucket[first : min(last, first + limit - len(found))]
            if last < len(bucket):
                break
            index += 1
        return found


def _sorted(keys: Iterable[bytes]) -> list[bytes]:
    """Sorts keys in runs, so that no single step is longer than the sort of one run."""
    remaining = iter(keys)
    runs = list(iter(lambda: sorted(islice(remaining, _RUN_KEYS)), []))
    return runs[0] if len(runs) == 1 else list(merge(*runs))
