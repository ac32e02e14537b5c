"""Time-ordered index of one timer state, in a column family of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocksdict import ReadOptions

from queryable_state.server.storage.rocksdb.errors import translating
from queryable_state.server.storage.rocksdb.records import RocksDBRecords
from queryable_state.server.storage.time_index import clock_bounds
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocksdict import ColumnFamily, Rdict

_SUFFIX = ".timers"


def index_family(state_id: int) -> str:
    """The name of the column family of a state's index."""
    return f"{state_id}{_SUFFIX}"


def is_index_family(name: str) -> bool:
    """True if a column family is the index of a state."""
    return name.endswith(_SUFFIX)


def state_of(index_family: str) -> int:
    """The state of an index."""
    return int(index_family.removesuffix(_SUFFIX))


class RocksDBTimeIndex(RocksDBRecords):
    """The live index, which knows the first key of each clock.

    Timers fire from the front, so the front is full of tombstones until RocksDB compacts them.
    Reads start at the first key and never pass them; a write that deletes the first key looks for
    the next one, and so passes each tombstone once.
    """

    def __init__(self, family: Rdict, handle: ColumnFamily) -> None:
        super().__init__(family, handle)
        self._bounds = [clock_bounds(clock) for clock in Clock]
        self._options = []
        for _, end in self._bounds:
            options = ReadOptions()
            options.set_iterate_upper_bound(end)
            self._options.append(options)
        self._first = [self._from(clock, self._bounds[clock][0]) for clock in Clock]

    def chunk(self, start: bytes, end: bytes | None, limit: int) -> list[tuple[bytes, bytes]]:
        clock = start[0] if start else Clock.PROCESSING_TIME
        if clock <= Clock.EVENT_TIME:
            start = max(start, self._first[clock] or self._bounds[clock][1])
        if end is not None and start >= end:
            return []
        found: list[tuple[bytes, bytes]] = []
        with translating("read the timers"):
            iterator = self.family.iter()
            iterator.seek(start)
            while iterator.valid() and len(found) < limit:
                key = iterator.key()
                if end is not None and key >= end:
                    break
                found.append((key, b""))
                iterator.next()
            iterator.status()
        return found

    def written(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Updates the first keys after a write of these changes."""
        for clock in Clock:
            start, end = self._bounds[clock]
            first = self._first[clock]
            # The write puts or deletes the key that is first now.
            lowest = min(
                (
                    key
                    for key, value in changes.items()
                    if start <= key < end and (value is not None or key == first)
                ),
                default=None,
            )
            if lowest is None or (first is not None and first < lowest):
                continue
            self._first[clock] = (
                lowest if changes[lowest] is not None else self._from(clock, lowest)
            )

    def _from(self, clock: Clock, start: bytes) -> bytes | None:
        """The first key of a clock that is not before `start`."""
        with translating("read the timers"):
            iterator = self.family.iter(self._options[clock])
            iterator.seek(start)
            first: bytes | None = iterator.key() if iterator.valid() else None
            iterator.status()
        return first
