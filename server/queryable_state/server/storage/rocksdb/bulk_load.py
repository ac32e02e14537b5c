"""Bulk load by table files, written in key order and ingested."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rocksdict import IngestExternalFileOptions, SstFileWriter

from queryable_state.server.storage.bulk_load import BulkLoad
from queryable_state.server.storage.refusals import unknown_state
from queryable_state.server.storage.rocksdb.errors import translating, writing_files
from queryable_state.server.storage.rocksdb.options import database_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.storage.rocksdb.records import RocksDBRecords
    from queryable_state.server.storage.rocksdb.settings import RocksDBSettings


class RocksDBLoad(BulkLoad):
    """A bulk load that writes one table a state at a time and ingests full ones.

    Records that begin again at lower keys begin another table.
    """

    def __init__(
        self,
        states: Mapping[int, RocksDBRecords],
        load_index: Callable[[int, list[bytes]], None],
        scratch: Path,
        settings: RocksDBSettings,
    ) -> None:
        """`load_index` adds loaded keys to the time-ordered index of their state, if it has one."""
        self._states = states
        self._load_index = load_index
        self._scratch = scratch
        self._settings = settings
        self._tables: dict[int, _Table] = {}
        self._ingest_options = IngestExternalFileOptions()
        self._ingest_options.set_move_files(True)
        self._count = 0

    def _put_sorted(
        self, state_id: int, keys: list[bytes], records: Sequence[tuple[bytes, bytes]]
    ) -> None:
        if state_id not in self._states:
            raise unknown_state(state_id)
        table = self._tables.get(state_id)
        if table is not None and (
            keys[0] <= table.last_key or table.size_bytes >= self._settings.target_file_bytes
        ):
            self._ingest(state_id)
            table = None
        if table is None:
            table = self._tables[state_id] = self._new_table()
        with translating(f"load state {state_id}"):
            table.add(records)
        self._load_index(state_id, keys)

    def finish(self) -> None:
        for state_id in list(self._tables):
            self._ingest(state_id)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def abandon(self) -> None:
        self._tables.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _new_table(self) -> _Table:
        with writing_files(self._scratch):
            self._scratch.mkdir(exist_ok=True)
        self._count += 1
        with translating("write a table"):
            return _Table(self._scratch / f"{self._count}.sst", self._settings)

    def _ingest(self, state_id: int) -> None:
        table = self._tables.pop(state_id)
        with translating(f"load state {state_id}"):
            table.writer.finish()
            self._states[state_id].family.ingest_external_file(
                [str(table.path)], self._ingest_options
            )


class _Table:
    def __init__(self, path: Path, settings: RocksDBSettings) -> None:
        self.path = path
        self.last_key = b""
        self.size_bytes = 0
        self.writer = SstFileWriter(database_options(settings))
        self.writer.open(str(path))

    def add(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        write = self.writer.__setitem__
        for key, value in records:
            write(key, value)
        self.last_key = records[-1][0]
        self.size_bytes = self.writer.file_size()
