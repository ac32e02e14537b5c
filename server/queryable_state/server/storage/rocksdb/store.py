"""State store in RocksDB on the executor's local disk, for state larger than the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from rocksdict import Checkpoint, Rdict, WriteBatch

from queryable_state.internal.v1.checkpoint_pb2 import SnapshotFormat
from queryable_state.server.storage.base import BaseImage, StateBase
from queryable_state.server.storage.layered.store import LayeredStore
from queryable_state.server.storage.rocksdb.bulk_load import RocksDBLoad
from queryable_state.server.storage.rocksdb.errors import reading_files, translating, writing_files
from queryable_state.server.storage.rocksdb.files import (
    DEFAULT_FAMILY,
    local_files,
    place_files,
    read_rocksdb_files,
)
from queryable_state.server.storage.rocksdb.options import database_options, write_options
from queryable_state.server.storage.rocksdb.records import (
    IteratedRecords,
    RocksDBImage,
    RocksDBRecords,
)
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
from queryable_state.server.storage.rocksdb.store_directory import StoreDirectory
from queryable_state.server.storage.snapshot import LocalFile, StateRecords, StoreSnapshot
from queryable_state.server.storage.store import NOTHING_COMMITTED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path


_ALL_KEY_GROUPS = (0, 0xFFFF)


class NativeSnapshot(StoreSnapshot):
    """A snapshot as a directory of RocksDB files, which belongs to the caller."""

    format = SnapshotFormat.ROCKSDB

    def __init__(
        self,
        version: int,
        directory: Path,
        operator_states: Mapping[int, tuple[bytes, ...]],
        sizes: Sequence[StateRecords],
    ) -> None:
        self.version = version
        self.directory = directory
        self._operator_states = operator_states
        self._sizes = sizes
        with writing_files(directory):
            _remove_unneeded_files(directory)

    def state_ids(self) -> list[int]:
        return [size.state_id for size in self._sizes]

    def records(self, state_id: int) -> Iterator[tuple[bytes, bytes]]:
        files = {file.name: file.path for file in self.files()}
        for _, records in read_rocksdb_files(
            files, self.directory.parent, *_ALL_KEY_GROUPS, state_ids=(state_id,)
        ):
            yield from records

    def files(self) -> list[LocalFile]:
        return local_files(self.directory)

    def operator_states(self) -> Mapping[int, tuple[bytes, ...]]:
        return self._operator_states

    def sizes(self) -> list[StateRecords]:
        return list(self._sizes)

    def close(self) -> None:
        pass


def _remove_unneeded_files(directory: Path) -> None:
    """Removes option files (options are passed on opening) and the unused write-ahead log."""
    for path in directory.iterdir():
        if path.name.startswith("OPTIONS-") or path.suffix == ".log":
            path.unlink()


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
    """One database. It never drops a column family: a late write to a dropped one corrupts it."""

    has_files: ClassVar[bool] = True

    def __init__(
        self, path: Path, settings: RocksDBSettings, files: Mapping[str, Path] | None = None
    ) -> None:
        self._settings = settings
        self._write_options = write_options()
        self._states: dict[int, RocksDBRecords] = {}
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
            state_ids = dict(zip(map(int, names), names, strict=True))
            self._database = Rdict(
                str(path), options, column_families=dict.fromkeys(names, options)
            )
        try:
            for state_id, name in state_ids.items():
                self._register_family(state_id, self._database.get_column_family(name))
        except BaseException:
            self._close_database()
            raise

    def _register_family(self, state_id: int, family: Rdict) -> None:
        handle = self._database.get_column_family_handle(str(state_id))
        self._states[state_id] = RocksDBRecords(family, handle)

    def state_ids(self) -> Collection[int]:
        return self._states.keys()

    def add_state(self, state_id: int) -> None:
        name = str(state_id)
        with translating(f"create state {state_id}"):
            self._register_family(
                state_id,
                self._database.create_column_family(name, database_options(self._settings)),
            )

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
        state = self._states[state_id]
        with translating(f"write state {state_id}"):
            batch = WriteBatch(raw_mode=True)
            batch.set_default_column_family(state.handle)
            for key, value in changes.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
            self._database.write(batch, self._write_options)

    def bulk_load(self) -> RocksDBLoad:
        return RocksDBLoad(self._states, self._directory.scratch_path, self._settings)

    def flush(self) -> None:
        with translating("flush"):
            for state in list(self._states.values()):
                state.family.flush(True)

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

    def close(self) -> None:
        self._close_database()
        self._directory.close()

    def _close_database(self) -> None:
        # The database keeps its lock while any handle exists, and readers hold bound methods
        # of families: closing a family invalidates them.
        with translating("close"):
            for state in self._states.values():
                state.family.close()
            self._states.clear()
            self._database.close()

    def destroy(self) -> None:
        self._directory.remove()
