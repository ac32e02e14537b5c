"""Base over the RocksDB files of Spark's state stores, in a directory of our own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, ClassVar

from rocksdict import Options, Rdict, WriteBatch

from queryable_state.server.storage.base import BaseImage, StateBase
from queryable_state.server.storage.refusals import store_closed
from queryable_state.server.storage.rocksdb.errors import reading_files, translating
from queryable_state.server.storage.rocksdb.options import (
    configure,
    database_options,
    write_options,
)
from queryable_state.server.storage.rocksdb.records import (
    IteratedRecords,
    RocksDBImage,
    RocksDBRecords,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from queryable_state.server.storage.bulk_load import BulkLoad
    from queryable_state.server.storage.rocksdb.settings import RocksDBSettings

_DEFAULT_FAMILY = "default"


class SparkRocksDBBase(StateBase):
    """One database a source: a snapshot of Spark's, or an empty one.

    A snapshot's table files may be hard links to Spark's: tables never change, and RocksDB writes
    new ones beside them, so compaction does not touch Spark's files. Records are in the default
    column family. Merge operands in Spark's tables are resolved by the merge operator that the
    snapshot's OPTIONS file names.
    """

    has_files: ClassVar[bool] = False

    def __init__(self, directory: Path, databases: Mapping[int, Rdict]) -> None:
        """`databases`: of each source, within `directory`; the base closes and removes them."""
        self._directory = directory
        self._databases = dict(databases)
        self._records = {
            source: RocksDBRecords(database, database.get_column_family_handle(_DEFAULT_FAMILY))
            for source, database in databases.items()
        }
        self._write_options = write_options()

    def state_ids(self) -> Collection[int]:
        return self._records.keys()

    def add_state(self, state_id: int) -> None:
        raise NotImplementedError("the sources of a state partition are known when it is opened")

    def add_time_index(self, state_id: int) -> None:
        raise NotImplementedError("raw records have no timers of ours")

    def source(self, state_id: int) -> RocksDBRecords:
        return self._records[state_id]

    def preserve(self, state_ids: Collection[int]) -> BaseImage:
        with translating("keep an older version"):
            return RocksDBImage(
                {source: IteratedRecords(self._databases[source].iter()) for source in state_ids}
            )

    def apply(
        self, state_id: int, changes: Mapping[bytes, bytes | None], image: BaseImage | None
    ) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        with translating(f"write source {state_id}"):
            self._databases[state_id].write(batch, self._write_options)

    def flush(self) -> None:
        with translating("flush"):
            for database in self._databases.values():
                database.flush(True)

    def bulk_load(self) -> BulkLoad:
        raise NotImplementedError("the files of a snapshot are placed before they are opened")

    def approximate_size(self, state_id: int) -> tuple[int, int]:
        database = self._databases.get(state_id)
        if database is None:
            raise store_closed()
        with translating(f"estimate the size of source {state_id}"):
            records = database.property_int_value("rocksdb.estimate-num-keys") or 0
            size_bytes = (database.property_int_value("rocksdb.estimate-live-data-size") or 0) + (
                database.property_int_value("rocksdb.cur-size-all-mem-tables") or 0
            )
        return records, size_bytes

    def close(self) -> None:
        with translating("close"):
            self._records.clear()
            for database in self._databases.values():
                database.close()
            self._databases.clear()

    def destroy(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def open_snapshot(path: Path, settings: RocksDBSettings) -> Rdict:
    """The database of a snapshot; raises `CorruptDataError` if the files are not a whole one."""
    with reading_files(path):
        # Spark's own options: only they say how its merge operands are put together.
        options, families = Options.load_latest(str(path), ignore_unknown_options=True)
        for each in (options, *families.values()):
            configure(each, settings)
        options.create_if_missing(False)
        options.set_error_if_exists(False)
        # The file names folders of the executor that wrote it.
        options.set_wal_dir(str(path))
        options.set_db_log_dir("")
        return Rdict(str(path), options, column_families=families)


def open_empty(path: Path, settings: RocksDBSettings) -> Rdict:
    """An empty database."""
    with translating(f"create {path}"):
        path.mkdir(parents=True, exist_ok=True)
        return Rdict(str(path), database_options(settings))
