"""State store in memory: the fastest backend, limited by the memory of the process."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from queryable_state.server.storage.base import BaseImage, StateBase
from queryable_state.server.storage.bulk_load import BulkLoad
from queryable_state.server.storage.heap.sorted_keys import SortedKeys
from queryable_state.server.storage.layered.store import LayeredStore
from queryable_state.server.storage.overlay import StateOverlay
from queryable_state.server.storage.record_source import RecordSource
from queryable_state.server.storage.refusals import unknown_state
from queryable_state.server.storage.store import NOTHING_COMMITTED
from queryable_state.server.storage.time_index import index_changes, index_id
from queryable_state.wire.keys.timer_keys import index_key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence


class HeapStateStore(LayeredStore):
    """A store in memory; closing it drops all state."""

    def __init__(self, committed_version: int = NOTHING_COMMITTED) -> None:
        super().__init__(HeapBase(), committed_version)


class HeapBase(StateBase):
    """The base of a heap store: one dictionary a state."""

    def __init__(self) -> None:
        self._states: dict[int, HeapRecords] = {}

    def add_state(self, state_id: int) -> None:
        self._states[state_id] = HeapRecords()

    def add_time_index(self, state_id: int) -> None:
        if index_id(state_id) not in self._states:
            self._states[index_id(state_id)] = self._states[state_id].time_index()

    def source(self, state_id: int) -> HeapRecords:
        return self._states[state_id]

    def state_ids(self) -> Collection[int]:
        return [state_id for state_id in self._states if state_id >= 0]

    def bulk_load(self) -> HeapLoad:
        return HeapLoad(self._states)

    def preserve(self, state_ids: Collection[int]) -> HeapImage:
        return HeapImage([*state_ids, *map(index_id, state_ids)])

    def apply(
        self, state_id: int, changes: Mapping[bytes, bytes | None], image: BaseImage | None
    ) -> None:
        self._write(state_id, changes, image)
        if index_id(state_id) in self._states:
            self._write(index_id(state_id), index_changes(changes), image)

    def _write(
        self, state_id: int, changes: Mapping[bytes, bytes | None], image: BaseImage | None
    ) -> None:
        undo = image.of(state_id) if isinstance(image, HeapImage) else None
        self._states[state_id].apply(changes, undo)

    def flush(self) -> None:
        pass

    def approximate_size(self, state_id: int) -> tuple[int, int]:
        state = self._states[state_id]
        return len(state.records), state.size_bytes

    def close(self) -> None:
        self._states.clear()

    def destroy(self) -> None:
        pass


class HeapRecords(RecordSource):
    """The records of one state and their keys in order.

    A read of single records takes no lock; an ordered read and a write exclude each other.
    """

    def __init__(self, records: dict[bytes, bytes] | None = None) -> None:
        self.records = {} if records is None else records
        self.size_bytes = sum(map(len, self.records)) + sum(map(len, self.records.values()))
        self._keys = SortedKeys(self.records)
        self._lock = Lock()

    def time_index(self) -> HeapRecords:
        """The time-ordered index of these records, which are timers."""
        return HeapRecords({index_key_of(key): value for key, value in self.records.items()})

    def reader(self) -> Callable[[bytes], bytes | None]:
        return self.records.get

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return list(map(self.records.get, keys))

    def chunk(self, start: bytes, end: bytes | None, limit: int) -> list[tuple[bytes, bytes]]:
        with self._lock:
            keys = self._keys.slice(start, end, limit)
            return list(zip(keys, map(self.records.__getitem__, keys), strict=True))

    def apply(self, changes: Mapping[bytes, bytes | None], undo: UndoOverlay | None) -> None:
        """Writes the changes and keeps the replaced values in `undo`."""
        records, ordered = self.records, self._keys
        with self._lock:
            for key, value in changes.items():
                before = records.get(key)
                if undo is not None:
                    undo.keep(key, before)
                if before is not None:
                    self.size_bytes -= len(key) + len(before)
                if value is not None:
                    records[key] = value
                    self.size_bytes += len(key) + len(value)
                    if before is None:
                        ordered.add(key)
                elif before is not None:
                    del records[key]
                    ordered.remove(key)

    def extend(self, keys: list[bytes], records: Sequence[tuple[bytes, bytes]]) -> None:
        """Adds records in key order; fast if they follow all existing ones."""
        if self._keys.extend(keys):
            self.records.update(records)
            self.size_bytes += sum(map(len, keys)) + sum(len(value) for _, value in records)
        else:
            self.apply(dict(records), None)


class HeapLoad(BulkLoad):
    """A bulk load straight into the dictionaries; the indexes are made at its end."""

    def __init__(self, states: dict[int, HeapRecords]) -> None:
        self._states = states

    def _put_sorted(
        self, state_id: int, keys: list[bytes], records: Sequence[tuple[bytes, bytes]]
    ) -> None:
        try:
            state = self._states[state_id]
        except KeyError:
            raise unknown_state(state_id) from None
        state.extend(keys, records)

    def finish(self) -> None:
        for state_id in [~index for index in self._states if index < 0]:
            self._states[index_id(state_id)] = self._states[state_id].time_index()

    def abandon(self) -> None:
        pass


class HeapImage(BaseImage):
    """Values before a running compaction replaced them, by state: open views still read these."""

    def __init__(self, state_ids: Collection[int]) -> None:
        self._undo = {state_id: UndoOverlay() for state_id in state_ids}

    def of(self, state_id: int) -> UndoOverlay | None:
        return self._undo.get(state_id)


class UndoOverlay(StateOverlay):
    """An overlay that undoes the writes of a running compaction; for the background thread only."""

    __slots__ = ("_before", "_keys")

    def __init__(self) -> None:
        self._before: dict[bytes, bytes | None] = {}
        self._keys: SortedKeys | None = None
        super().__init__(self._before)

    def keep(self, key: bytes, before: bytes | None) -> None:
        """Keeps the oldest value of a key; None if it had none."""
        if key not in self._before:
            self._before[key] = before
            if self._keys is not None:
                self._keys.add(key)

    def keys_from(self, start: bytes, end: bytes | None, limit: int) -> list[bytes]:
        if self._keys is None:
            self._keys = SortedKeys(self._before)
        return self._keys.slice(start, end, limit)
