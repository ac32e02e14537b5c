"""State store in RocksDB on the executor's local disk, for state larger than the memory."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar, Self

from rocksdict import Checkpoint, Rdict, WriteBatch

from queryable_state.server.storage.base import BaseImage, StateBase
from queryable_state.server.storage.key_order import key_after
from queryable_state.server.storage.layered.store import LayeredStore
from queryable_state.server.storage.rocksdb.bulk_load import RocksDBLoad
from queryable_state.server.storage.rocksdb.errors import reading_files, translating
from queryable_state.server.storage.rocksdb.files import DEFAULT_FAMILY, place_files
from queryable_state.server.storage.rocksdb.native_snapshot import NativeSnapshot
from queryable_state.server.storage.rocksdb.options import database_options, write_options
from queryable_state.server.storage.rocksdb.records import (
    IteratedRecords,
    RocksDBImage,
    RocksDBRecords,
)
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
from queryable_state.server.storage.rocksdb.store_directory import StoreDirectory
from queryable_state.server.storage.rocksdb.time_index import (
    RocksDBTimeIndex,
    index_family,
    is_index_family,
    state_of,
)
from queryable_state.server.storage.store import NOTHING_COMMITTED
from queryable_state.server.storage.time_index import index_changes, index_id
from queryable_state.wire.errors import CheckpointError, InternalError
from queryable_state.wire.keys.timer_keys import index_key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from rocksdict import ColumnFamily

    from queryable_state.wire.errors import QueryableStateError


PROPERTIES = (
    "estimate-num-keys",
    "total-sst-files-size",
    "cur-size-all-mem-tables",
    "estimate-table-readers-mem",
    "estimate-pending-compaction-bytes",
    "num-running-compactions",
    "num-running-flushes",
    "num-snapshots",
    "is-write-stopped",
    "background-errors",
)
"""Properties of RocksDB of `properties`; docs/metrics.md explains them."""

_INDEXED_RECORDS = 1024
_ERRORS = "background-errors"


class RocksDBStateStore(LayeredStore):
    """A store in a directory of its own, with a column family a state.

    Opening removes the files that an earlier store left in the directory. Raises
    `InvalidRequestError` for a directory with other files or of an open store.
    """

    def __init__(
        self,
        path: Path,
        settings: RocksDBSettings | None = None,
        committed_version: int = NOTHING_COMMITTED,
    ) -> None:
        self._open(RocksDBBase(path, settings or RocksDBSettings()), committed_version)

    @classmethod
    def from_files(
        cls,
        path: Path,
        settings: RocksDBSettings | None,
        files: Mapping[str, Path],
        version: int,
    ) -> Self:
        """Opens a store at `version` with the files of a native snapshot, by their names.

        The files stay as they are; tables are linked, not copied, on the same file system.
        The states in them exist and may be added again. Raises `CorruptDataError` for
        files that are damaged or missing.
        """
        store = cls.__new__(cls)
        store._open(RocksDBBase(path, settings or RocksDBSettings(), files), version)
        return store

    def _open(self, base: RocksDBBase, committed_version: int) -> None:
        try:
            super().__init__(base, committed_version)
        except BaseException:
            base.close()
            raise


class RocksDBBase(StateBase):
    """One database: a column family for each state, and one for each time-ordered index.

    It never drops a column family: a late write to a dropped one corrupts it.
    """

    has_files: ClassVar[bool] = True

    def __init__(
        self, path: Path, settings: RocksDBSettings, files: Mapping[str, Path] | None = None
    ) -> None:
        self._settings = settings
        self._write_options = write_options()
        self._states: dict[int, RocksDBRecords] = {}
        self._indexes: dict[int, RocksDBTimeIndex] = {}
        self._write_failure: QueryableStateError | None = None
        self._directory = StoreDirectory(path)
        try:
            if files is None:
                with translating(f"open {path}"):
                    self._database = Rdict(
                        str(self._directory.database_path), database_options(settings)
                    )
            else:
                self._open_files(files)
        except BaseException:
            self._directory.close()
            raise

    def _open_files(self, files: Mapping[str, Path]) -> None:
        path = self._directory.database_path
        place_files(files, path)
        options = database_options(self._settings, new=False)
        with reading_files(path):
            names = [name for name in Rdict.list_cf(str(path), options) if name != DEFAULT_FAMILY]
            states = {name: int(name) for name in names if not is_index_family(name)}
            indexed = {name: state_of(name) for name in names if is_index_family(name)}
            self._database = Rdict(
                str(path), options, column_families=dict.fromkeys(names, options)
            )
        try:
            for name, state_id in states.items():
                self._states[state_id] = RocksDBRecords(*self._family(name))
            for name, state_id in indexed.items():
                self._indexes[state_id] = RocksDBTimeIndex(*self._family(name))
        except BaseException:
            self._close_database()
            raise

    def _family(self, name: str) -> tuple[Rdict, ColumnFamily]:
        database = self._database
        return database.get_column_family(name), database.get_column_family_handle(name)

    def _new_family(self, name: str) -> tuple[Rdict, ColumnFamily]:
        family = self._database.create_column_family(name, database_options(self._settings))
        return family, self._database.get_column_family_handle(name)

    def state_ids(self) -> Collection[int]:
        return self._states.keys()

    def add_state(self, state_id: int) -> None:
        with translating(f"create state {state_id}"):
            self._states[state_id] = RocksDBRecords(*self._new_family(str(state_id)))

    def add_time_index(self, state_id: int) -> None:
        if state_id in self._indexes:
            return
        records = self._states[state_id]
        with translating(f"create the timers of state {state_id}"):
            index = RocksDBTimeIndex(*self._new_family(index_family(state_id)))
        start: bytes | None = b""
        while start is not None:
            found = records.chunk(start, None, _INDEXED_RECORDS)
            self._write([(index, index_changes(dict(found)))])
            start = key_after(found[-1][0]) if len(found) == _INDEXED_RECORDS else None
        self._indexes[state_id] = index

    def source(self, state_id: int) -> RocksDBRecords:
        return self._states[state_id] if state_id >= 0 else self._indexes[index_id(state_id)]

    def preserve(self, state_ids: Collection[int]) -> RocksDBImage:
        preserved = [*state_ids, *(index_id(each) for each in state_ids if each in self._indexes)]
        families = {state_id: self.source(state_id).family for state_id in preserved}
        with translating("keep an older version"):
            return RocksDBImage(
                {state_id: IteratedRecords(family.iter()) for state_id, family in families.items()}
            )

    def apply(
        self, state_id: int, changes: Mapping[bytes, bytes | None], image: BaseImage | None
    ) -> None:
        writes: list[tuple[RocksDBRecords, Mapping[bytes, bytes | None]]]
        writes = [(self._states[state_id], changes)]
        if state_id in self._indexes:
            writes.append((self._indexes[state_id], index_changes(changes)))
        with self._writing(f"write state {state_id}"):
            self._write(writes)

    @contextmanager
    def _writing(self, action: str) -> Iterator[None]:
        """Translates errors of the block and keeps them: RocksDB accepts no write after one.

        It stays so when the disk can be written again; rocksdict has no way to resume.
        """
        try:
            with translating(action):
                yield
        except (InternalError, CheckpointError) as failure:
            self._write_failure = failure
            raise

    def _write(self, writes: Sequence[tuple[RocksDBRecords, Mapping[bytes, bytes | None]]]) -> None:
        """Writes to several families in one step."""
        batch = WriteBatch(raw_mode=True)
        for records, changes in writes:
            batch.set_default_column_family(records.handle)
            for key, value in changes.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        self._database.write(batch, self._write_options)
        for records, changes in writes:
            if isinstance(records, RocksDBTimeIndex):
                records.written(changes)

    def bulk_load(self) -> RocksDBLoad:
        return RocksDBLoad(
            self._states, self._load_index, self._directory.scratch_path, self._settings
        )

    def _load_index(self, state_id: int, keys: Sequence[bytes]) -> None:
        """Adds loaded records to the index of their state, if it has one.

        Not by table files: the keys of one load are in the order of the records.
        """
        index = self._indexes.get(state_id)
        if index is None:
            return
        for first in range(0, len(keys), _INDEXED_RECORDS):
            chunk = keys[first : first + _INDEXED_RECORDS]
            with translating(f"load the timers of state {state_id}"):
                self._write([(index, dict.fromkeys(map(index_key_of, chunk), b""))])

    def write_failure(self) -> QueryableStateError | None:
        return self._write_failure

    def flush(self) -> None:
        with self._writing("flush"):
            for records in (*self._states.values(), *self._indexes.values()):
                records.family.flush(True)

    def native_snapshot(
        self,
        version: int,
        directory: Path,
        operator_states: Mapping[int, tuple[bytes, ...]],
    ) -> NativeSnapshot:
        with translating(f"write a snapshot of version {version} into {directory}"):
            # Flushes every memtable. No variable holds it, so that it is released at once.
            Checkpoint(self._database).create_checkpoint(str(directory))
        return NativeSnapshot(version, directory, operator_states, self.sizes())

    def approximate_size(self, state_id: int) -> tuple[int, int]:
        family = self._states[state_id].family
        with translating(f"estimate the size of state {state_id}"):
            records = family.property_int_value("rocksdb.estimate-num-keys") or 0
            size_bytes = (family.property_int_value("rocksdb.estimate-live-data-size") or 0) + (
                family.property_int_value("rocksdb.cur-size-all-mem-tables") or 0
            )
        return records, size_bytes

    def properties(self) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for records in (*self._states.values(), *self._indexes.values()):
            for name in PROPERTIES:
                found[name] += records.family.property_int_value(f"rocksdb.{name}") or 0
        # RocksDB counts them in the default family, whichever family failed.
        found[_ERRORS] = self._database.property_int_value(f"rocksdb.{_ERRORS}") or 0
        return found

    def close(self) -> None:
        self._close_database()
        self._directory.close()

    def _close_database(self) -> None:
        # The database keeps its lock while any handle exists, and readers hold bound methods
        # of families: closing a family invalidates them. Each close flushes first and ends with
        # that error; nothing needs what is flushed.
        records = (*self._states.values(), *self._indexes.values())
        for handle in (*(each.family for each in records), self._database):
            with suppress(Exception):
                handle.close()
        self._states.clear()
        self._indexes.clear()

    def destroy(self) -> None:
        self._directory.remove()
