"""Factory of stores, on the heap or in RocksDB."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from queryable_state.internal.v1.checkpoint_pb2 import JobStorage
from queryable_state.server.json_settings import json_settings
from queryable_state.server.settings.shared_settings import BACKENDS
from queryable_state.server.state_server.base.server_directory import is_of_ended_process
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.settings.shared_settings import Backend
    from queryable_state.server.state_server.stores.owned_subtask import SubtaskId
    from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
    from queryable_state.server.storage.store import StateStore

_PREFIX = "queryable-state-"
# The backend of a job that sets none.
_OF_THE_SERVER = JobStorage()


class StoreFactory:
    """Creates stores of the backend that a job configures. Thread-safe.

    Files on disk belong to this process only: they are removed with their store. The files of
    a killed process are removed when this one starts or first uses a job's own directory.
    """

    def __init__(
        self, backend: Backend, directory: Path, rocksdb: Mapping[str, int] | None = None
    ) -> None:
        self._backend = backend
        self._rocksdb = dict(rocksdb or {})
        self._directory = directory
        self._numbers = itertools.count()
        self._lock = Lock()
        self._used: dict[str, Path] = {}
        self._paths: WeakKeyDictionary[StateStore, Path] = WeakKeyDictionary()
        self.remove_all()

    def backend(self, settings: JobStorage) -> str:
        """Returns the backend of a job's stores; raises `InvalidRequestError` if unknown."""
        backend = settings.backend or self._backend
        if backend not in BACKENDS:
            raise InvalidRequestError(
                f"state backend {backend!r} is unknown: use one of {', '.join(BACKENDS)}"
            )
        return backend

    def new(
        self,
        subtask_id: SubtaskId,
        committed_version: int,
        settings: JobStorage = _OF_THE_SERVER,
    ) -> StateStore:
        """Creates an empty store at `committed_version`. Blocking: not for the event loop."""
        if self.backend(settings) == "heap":
            return HeapStateStore(committed_version)
        # Imported here, because a server with heap stores needs no rocksdict.
        from queryable_state.server.storage.rocksdb.store import RocksDBStateStore

        path = self._path(subtask_id, settings)
        store = RocksDBStateStore(path, self._settings(settings), committed_version)
        self._paths[store] = path
        return store

    def from_files(
        self,
        subtask_id: SubtaskId,
        version: int,
        settings: JobStorage,
        files: Mapping[str, Path],
    ) -> StateStore:
        """A RocksDB store that starts with the files of a native snapshot."""
        from queryable_state.server.storage.rocksdb.store import RocksDBStateStore

        path = self._path(subtask_id, settings)
        store = RocksDBStateStore.from_files(path, self._settings(settings), files, version)
        self._paths[store] = path
        return store

    def snapshot_path(self, store: StateStore) -> Path | None:
        """A free path for a native snapshot, on the store's disk; None: it has no files."""
        path = self._paths.get(store)
        return (
            None if path is None else path.with_name(f"{path.name}-snapshot-{next(self._numbers)}")
        )

    def remove_all(self) -> None:
        """Removes all files on disk. Call it after every store is closed."""
        for directory in (self._directory, *self._used.values()):
            shutil.rmtree(directory, ignore_errors=True)
        self._used.clear()

    def _settings(self, settings: JobStorage) -> RocksDBSettings:
        from queryable_state.server.storage.rocksdb.settings import RocksDBSettings

        of_job = json_settings(settings.rocksdb_settings, "the RocksDB settings of the job")
        return RocksDBSettings.of({**self._rocksdb, **of_job})

    def _path(self, subtask_id: SubtaskId, settings: JobStorage) -> Path:
        number = next(self._numbers)
        directory = self._directory
        if settings.rocksdb_directories:
            chosen = settings.rocksdb_directories[number % len(settings.rocksdb_directories)]
            directory = self._own_folder(chosen)
        directory.mkdir(parents=True, exist_ok=True)
        return directory / f"{subtask_id.query_id.hex()}-{subtask_id.subtask}-{number}"

    def _own_folder(self, directory: str) -> Path:
        """Returns this server's folder in a shared directory; empties it at its first use."""
        with self._lock:
            folder = self._used.get(directory)
            if folder is None:
                above = Path(directory)
                name = self._directory.parent.name
                folder = above / (name if name.startswith(_PREFIX) else f"{_PREFIX}{name}")
                try:
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir(mode=0o700, parents=True)
                    for other in above.glob(f"{_PREFIX}*"):
                        if is_of_ended_process(other.name):
                            shutil.rmtree(other, ignore_errors=True)
                except OSError as problem:
                    raise InvalidRequestError(
                        f"RocksDB cannot use {directory}: {problem}: set a folder this user can "
                        "write (set_db_storage_paths, state.backend.rocksdb.localdir)"
                    ) from problem
                self._used[directory] = folder
            return folder
