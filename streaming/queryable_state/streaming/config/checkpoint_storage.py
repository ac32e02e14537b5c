"""Checkpoint storages: the locations of checkpoints, with PyFlink's names.

`CheckpointConfig.set_checkpoint_storage` combines a storage with the state backend of a job. A
backend that has a location of its own (`MemoryStateBackend`, `FsStateBackend`,
`RocksDBStateBackend`) takes precedence, as in Flink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from queryable_state.streaming.config.rocksdb_state_backend import EmbeddedRocksDBStateBackend
from queryable_state.streaming.config.state_backend import (
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
    StateBackend,
)


class CheckpointStorage(ABC):
    """A location of checkpoints."""

    @abstractmethod
    def stream_backend(self) -> MemoryStateBackend | FsStateBackend:
        """The state backend on the heap that has this location."""

    def get_checkpoint_path(self) -> str | None:
        """The directory under which each job has a folder of its name; None: not set."""
        return self.stream_backend().checkpoint_directory

    def get_savepoint_path(self) -> str | None:
        """The default directory of savepoints; None: `state.savepoints.dir`."""
        return self.stream_backend().savepoint_directory


class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in the driver's memory, for small state; see `MemoryStateBackend`."""

    DEFAULT_MAX_STATE_SIZE: Final = MemoryStateBackend.DEFAULT_MAX_STATE_SIZE

    def __init__(
        self, checkpoint_path: str | None = None, max_state_size: int | None = None
    ) -> None:
        self._backend = MemoryStateBackend(checkpoint_path, None, max_state_size)

    def stream_backend(self) -> MemoryStateBackend:
        return self._backend

    def get_max_state_size(self) -> int:
        """Maximum bytes of one state of one subtask in a checkpoint."""
        return self._backend.get_max_state_size()

    def __repr__(self) -> str:
        return f"JobManagerCheckpointStorage(max_state_size={self.get_max_state_size()})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints as files under a directory."""

    MAX_FILE_STATE_THRESHOLD: Final = FsStateBackend.MAX_FILE_STATE_THRESHOLD

    def __init__(
        self,
        checkpoint_path: str,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        self._backend = FsStateBackend(
            checkpoint_path, None, file_state_size_threshold, write_buffer_size
        )

    def stream_backend(self) -> FsStateBackend:
        return self._backend

    def get_min_file_size_threshold(self) -> int:
        """Checkpoint files up to this many bytes are stored in the checkpoint's metadata."""
        return self._backend.get_min_file_size_threshold()

    def get_write_buffer_size(self) -> int:
        """The size that was set; it has no effect, because files are written whole."""
        return self._backend.get_write_buffer_size()

    def __repr__(self) -> str:
        return f"FileSystemCheckpointStorage({self.get_checkpoint_path()!r})"


def stored_at(backend: StateBackend, storage: CheckpointStorage) -> StateBackend:
    """The backend with the location of a storage; unchanged if it has a location of its own."""
    if isinstance(backend, EmbeddedRocksDBStateBackend) and backend.stream_backend is None:
        return backend.stored_at(storage.stream_backend())
    if isinstance(backend, HashMapStateBackend):
        return storage.stream_backend()
    return backend
