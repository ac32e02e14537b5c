"""State in RocksDB: larger than the memory, on the executor's local disk."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from rocksdict import Rdict, WriteBatch

from queryable_state.server.storage.base import BaseImage, RecordSource, StateBase
from queryable_state.server.storage.layered import LayeredStore
from queryable_state.server.storage.rocksdb_errors import translated, translating
from queryable_state.server.storage.rocksdb_settings import (
    RocksDBSettings,
    database_options,
    write_options,
)
from queryable_state.server.storage.store import NOTHING_COMMITTED
from queryable_state.server.storage.store_directory import StoreDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from rocksdict import ColumnFamily, RdictIter


class RocksDBStateStore(LayeredStore):
    """A store in a directory of its own, a column family a state.

    The directory is not a copy to come back to: what another store left in it
    is removed on opening. Raises `InvalidRequestError` for a directory that
    holds something else or belongs to an open store.
    """

    def __init__(
        self,
        path: Path,
        settings: RocksDBSettings | None = None,
        committed_version: int = NOTHING_COMMITTED,
    ) -> None:
        base = RocksDBBase(path, settings or RocksDBSettings())
        try:
            super().__init__(base, committed_version)
        except BaseException:
            base.close()
            raise


class RocksDBBase(StateBase):
    """One database. Column families are never dropped: a late write to a dropped one breaks it."""

    def __init__(self, path: Path, settings: RocksDBSettings) -> None:
        self._settings = settings
        self._write_options = write_options()
        self._states: dict[int, RocksDBRecords] = {}
        self._directory = StoreDirectory(path)
        try:
            with translating(f"open {path}"):
                self._database = Rdict(
                    str(self._directory.database_path), database_options(settings)
                )
        except BaseException:
            self._directory.close()
            raise

    def add_state(self, state_id: int) -> None:
        name = str(state_id)
        with translating(f"create state {state_id}"):
            family = self._database.create_column_family(name, database_options(self._settings))
            handle = self._database.get_column_family_handle(name)
        self._states[state_id] = RocksDBRecords(family, handle)

    def source(self, state_id: int) -> RocksDBRecords:
        return self._states[state_id]

    def preserve(self, state_ids: Collection[int]) -> RocksDBImage:
        families = {state_id: self._states[state_id].family for state_id in state_ids}
        with translating("keep an older version"):
            return RocksDBImage(
                {state_id: IteratedRecords(family.iter()) for state_id, family in families.items()}
            )

    def apply(
        self, state_id: int, changes: Mapping[bytes, bytes | None], image: BaseImage | None
    ) -> None:
        handle = self._states[state_id].handle
        with translating(f"write state {state_id}"):
            batch = WriteBatch(raw_mode=True)
            batch.set_default_column_family(handle)
            for key, value in changes.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            self._database.write(batch, self._write_options)

    def approximate_size(self, state_id: int) -> tuple[int, int]:
        family = self._states[state_id].family
        with translating(f"measure state {state_id}"):
            records = family.property_int_value("rocksdb.estimate-num-keys") or 0
            size_bytes = (family.property_int_value("rocksdb.estimate-live-data-size") or 0) + (
                family.property_int_value("rocksdb.cur-size-all-mem-tables") or 0
            )
        return records, size_bytes

    def close(self) -> None:
        # The database keeps its lock until every handle is gone, the readers' bound methods
        # among them: closing a family empties the ones that are still out.
        with translating("close"):
            for state in self._states.values():
                state.family.close()
            self._states.clear()
            self._database.close()
        self._directory.close()

    def destroy(self) -> None:
        self._directory.remove()


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
            return _head(self.family.items(from_key=start), end, limit)


class IteratedRecords(RecordSource):
    """The records of one column family as they were before a fold.

    An iterator keeps the version it was made at, for every seek. rocksdict's
    `Snapshot` does not: what iterates over one sees later writes.
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
    """The states a fold writes to, as they were before it."""

    def __init__(self, states: Mapping[int, IteratedRecords]) -> None:
        self._states = states

    def of(self, state_id: int) -> IteratedRecords | None:
        return self._states.get(state_id)


def _head(
    items: Iterable[tuple[Any, Any]], end: bytes | None, limit: int
) -> list[tuple[bytes, bytes]]:
    """The first `limit` records with a key below `end`."""
    found: list[tuple[bytes, bytes]] = []
    for key, value in islice(items, limit):
        if end is not None and key >= end:
            break
        found.append((key, value))
    return found
