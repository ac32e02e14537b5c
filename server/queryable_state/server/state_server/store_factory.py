"""Where new stores come from."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING

from queryable_state.server.storage.heap import HeapStateStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from queryable_state.server.settings import Backend
    from queryable_state.server.state_server.owned_subtask import SubtaskId
    from queryable_state.server.storage.store import StateStore


class StoreFactory:
    """Makes empty stores of one backend, those on disk in folders under `directory`.

    What is on disk is of this process only: it is removed with the store, and what a killed
    process left is removed at the start.
    """

    def __init__(
        self, backend: Backend, directory: Path, rocksdb: Mapping[str, int] | None = None
    ) -> None:
        self._backend = backend
        self._rocksdb = dict(rocksdb or {})
        self._directory = directory
        self._numbers = itertools.count()
        self.remove_all()

    def new(self, subtask_id: SubtaskId, committed_version: int) -> StateStore:
        """An empty store at `committed_version`. On the bulk thread: opening one takes a while."""
        if self._backend == "heap":
            return HeapStateStore(committed_version)
        # Imported here: a heap server needs no rocksdict.
        from queryable_state.server.storage.rocksdb import RocksDBStateStore
        from queryable_state.server.storage.rocksdb_settings import RocksDBSettings

        name = f"{subtask_id.query_id.hex()}-{subtask_id.subtask}-{next(self._numbers)}"
        path = self._directory / name
        self._directory.mkdir(parents=True, exist_ok=True)
        return RocksDBStateStore(path, RocksDBSettings(**self._rocksdb), committed_version)

    def remove_all(self) -> None:
        """Removes what is on disk; every store is closed."""
        shutil.rmtree(self._directory, ignore_errors=True)
