"""Records of one column family, current or as they were before a compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.storage.base import BaseImage
from queryable_state.server.storage.record_source import RecordSource
from queryable_state.server.storage.rocksdb.errors import translated, translating

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rocksdict import ColumnFamily, Rdict, RdictIter


class RocksDBRecords(RecordSource):
    """The live records of one column family."""

    def __init__(self, family: Rdict, handle: ColumnFamily) -> None:
        self.family = family
        self.handle = handle
        self._get = family.get

    def reader(self) -> Callable[[bytes], bytes | None]:
        read = self._get

        def get(key: bytes) -> bytes | None:
            try:
                return read(key)
            except Exception as error:
                raise translated(error, "read") from error

        return get

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        with translating("read"):
            ordered: list[Any] = sorted(keys)
            found = dict(zip(ordered, self.family.get(ordered) or (), strict=True))
        return [found[key] for key in keys]

    def chunk(self, start: bytes, end: bytes | None, limit: int) -> list[tuple[bytes, bytes]]:
        with translating("scan"):
            iterator = self.family.iter()
        return IteratedRecords(iterator).chunk(start, end, limit)


class IteratedRecords(RecordSource):
    """The records of one column family as they were when the iterator was made.

    Every seek of an iterator reads that version. rocksdict's `Snapshot` is no substitute:
    its iterators see later writes. An iterator ends at a damaged block as it does at the
    last record; only `status` raises.
    """

    def __init__(self, iterator: RdictIter) -> None:
        self._iterator = iterator

    def reader(self) -> Callable[[bytes], bytes | None]:
        return lambda key: self.multi_get((key,))[0]

    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        iterator = self._iterator
        with translating("read an older version"):
            values: list[bytes | None] = []
            for key in keys:
                iterator.seek(key)
                found = iterator.valid() and iterator.key() == key
                values.append(iterator.value() if found else None)
            iterator.status()
        return values

    def chunk(self, start: bytes, end: bytes | None, limit: int) -> list[tuple[bytes, bytes]]:
        iterator = self._iterator
        found: list[tuple[bytes, bytes]] = []
        with translating("scan an older version"):
            iterator.seek(start)
            while iterator.valid() and len(found) < limit:
                key = iterator.key()
                if end is not None and key >= end:
                    break
                found.append((key, iterator.value()))
                iterator.next()
            iterator.status()
        return found


class RocksDBImage(BaseImage):
    """The states that a compaction writes to, as they were before it."""

    def __init__(self, states: Mapping[int, IteratedRecords]) -> None:
        self._states = states

    def of(self, state_id: int) -> IteratedRecords | None:
        return self._states.get(state_id)
