"""State backends and checkpoint storages: the store of a running job's state, and the location of
its checkpoints.

The classes are PyFlink's, with PyFlink's defaults. Values that an object does not set (`None`) are
taken from `EnvironmentSettings`, as for a job without a state backend object.
"""

from __future__ import annotations

import copy
import importlib
from abc import ABC, abstractmethod
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self
from urllib.parse import urlsplit

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.settings.shared_settings import Backend

_DEFAULT_WRITE_BUFFER = 4096
_TRANSFER_THREADS = 4


class StateBackend:
    """A state backend; a job reads it when it starts."""

    kind: ClassVar[Backend]
    """Store of the state while the job runs."""

    _checkpoint_path: str | None = None
    _savepoint_path: str | None = None

    @property
    def checkpoint_directory(self) -> str | None:
        """URI under which jobs store checkpoints; None: `state.checkpoints.dir`."""
        return self._checkpoint_path

    @property
    def savepoint_directory(self) -> str | None:
        """URI under which savepoints are stored; None: `state.savepoints.dir`."""
        return self._savepoint_path


class HashMapStateBackend(StateBackend):
    """State on the heap; `CheckpointConfig.set_checkpoint_storage` or `state.checkpoints.dir` sets
    the location of checkpoints."""

    kind: ClassVar[Backend] = "heap"

    def __repr__(self) -> str:
        return "HashMapStateBackend()"


class MemoryStateBackend(StateBackend):
    """State on the heap, checkpoints in the driver's memory.

    The checkpoints survive state servers and executors, but not the driver. With a
    `checkpoint_path` or `state.checkpoints.dir` they are files there. For small state: a checkpoint
    fails if one state of one subtask exceeds `max_state_size` bytes.
    """

    kind: ClassVar[Backend] = "heap"
    DEFAULT_MAX_STATE_SIZE: Final = 5 * 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        self._checkpoint_path = checked_uri(checkpoint_path, "checkpoint_path")
        self._savepoint_path = checked_uri(savepoint_path, "savepoint_path")
        if max_state_size is not None and max_state_size <= 0:
            raise InvalidRequestError(
                f"max_state_size must be at least 1 byte, not {max_state_size}"
            )
        self._max_state_size = max_state_size or self.DEFAULT_MAX_STATE_SIZE
        self._asynchronous = _checked_flag(using_asynchronous_snapshots)

    def get_max_state_size(self) -> int:
        """Maximum bytes of one state of one subtask in a checkpoint."""
        return self._max_state_size

    def is_using_asynchronous_snapshots(self) -> bool:
        """The value that was set; snapshots are always asynchronous."""
        return self._asynchronous

    def __repr__(self) -> str:
        return f"MemoryStateBackend(max_state_size={self._max_state_size})"


class FsStateBackend(StateBackend):
    """State on the heap, checkpoints as files under a directory."""

    kind: ClassVar[Backend] = "heap"
    MAX_FILE_STATE_THRESHOLD: Final = 1024 * 1024

    def __init__(
        self,
        checkpoint_directory_uri: str,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
    ) -> None:
        directory = checked_uri(checkpoint_directory_uri, "checkpoint_directory_uri")
        if directory is None:
            raise InvalidRequestError("FsStateBackend needs a checkpoint_directory_uri")
        self._directory = self._checkpoint_path = directory
        self._savepoint_path = checked_uri(
            default_savepoint_directory_uri, "default_savepoint_directory_uri"
        )
        self._threshold = _unset_below_zero(file_state_size_threshold)
        if self._threshold is not None and self._threshold > self.MAX_FILE_STATE_THRESHOLD:
            raise InvalidRequestError(
                f"file_state_size_threshold must be at most {self.MAX_FILE_STATE_THRESHOLD} bytes, "
                f"not {self._threshold}: files below it are held in the driver's memory"
            )
        self._write_buffer = _unset_below_zero(write_buffer_size)
        self._asynchronous = _checked_flag(using_asynchronous_snapshots)

    @property
    def file_threshold(self) -> int | None:
        """The threshold that was set; None: `state.backend.fs.memory-threshold`."""
        return self._threshold

    def get_checkpoint_path(self) -> str:
        """The directory under which each job has a folder of its name."""
        return self._directory

    def get_min_file_size_threshold(self) -> int:
        """Checkpoint files up to this many bytes are stored in the checkpoint's metadata."""
        return 20480 if self._threshold is None else self._threshold

    def get_write_buffer_size(self) -> int:
        """The size that was set; it has no effect, because files are written whole."""
        return _DEFAULT_WRITE_BUFFER if self._write_buffer is None else self._write_buffer

    def is_using_asynchronous_snapshots(self) -> bool:
        """The value that was set; snapshots are always asynchronous."""
        return self._asynchronous

    def __repr__(self) -> str:
        return f"FsStateBackend({self._directory!r})"


class PredefinedOptions(IntEnum):
    """Profiles of RocksDB options for kinds of disks."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """State in RocksDB on the executors' disks; `CheckpointConfig.set_checkpoint_storage` or
    `state.checkpoints.dir` sets the location of checkpoints."""

    kind: ClassVar[Backend] = "rocksdb"

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise InvalidRequestError(
                "enable_incremental_checkpointing must be None, True or False, not "
                f"{enable_incremental_checkpointing!r}"
            )
        self._incremental = enable_incremental_checkpointing
        self._storage_paths: tuple[str, ...] = ()
        self._predefined: PredefinedOptions | None = None
        self._options: str | None = None
        self._threads: int | None = None
        self._ttl_filter = True
        self._stream_backend: StateBackend | None = None

    @property
    def checkpoint_directory(self) -> str | None:
        return None if self._stream_backend is None else self._stream_backend.checkpoint_directory

    @property
    def savepoint_directory(self) -> str | None:
        return None if self._stream_backend is None else self._stream_backend.savepoint_directory

    @property
    def stream_backend(self) -> StateBackend | None:
        """The backend that determines the location of checkpoints; None: not set."""
        return self._stream_backend

    def stored_at(self, stream_backend: StateBackend) -> Self:
        """A copy whose checkpoints have the location of `stream_backend`."""
        made = copy.copy(self)
        made._stream_backend = stream_backend
        return made

    @property
    def incremental(self) -> bool | None:
        """The value that was set; None: `state.backend.incremental`."""
        return self._incremental

    @property
    def predefined_options(self) -> PredefinedOptions | None:
        """The value that was set; None: `state.backend.rocksdb.predefined-options`."""
        return self._predefined

    @property
    def transfer_threads(self) -> int | None:
        """The value that was set; None: `state.backend.rocksdb.checkpoint.transfer.thread.num`."""
        return self._threads

    def set_db_storage_paths(self, *paths: str | None) -> None:
        """Sets folders on each executor for live RocksDB files, used round-robin; without any, the
        default folder. A `file:` URI stands for its path."""
        found = []
        for given in paths:
            path = urlsplit(given).path if given and given.startswith("file:") else given
            if path is None:
                continue
            if not path.startswith("/"):
                raise InvalidRequestError(
                    f"storage paths of RocksDB must be absolute local paths, and {given!r} is not"
                )
            found.append(path.rstrip("/") or path)
        self._storage_paths = tuple(found)

    def get_db_storage_paths(self) -> list[str]:
        """The folders that were set."""
        return list(self._storage_paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """True if the constructor set that a checkpoint writes only new files; without a value of
        the constructor `state.backend.incremental` counts."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Sets a profile; the options factory overrides its fields."""
        try:
            self._predefined = PredefinedOptions(options)
        except ValueError:
            known = ", ".join(profile.name for profile in PredefinedOptions)
            raise InvalidRequestError(
                f"{options!r} is not one of the predefined options: {known}"
            ) from None

    def get_predefined_options(self) -> PredefinedOptions:
        """The profile that was set, else DEFAULT."""
        return self._predefined or PredefinedOptions.DEFAULT

    def set_options(self, options_factory_class_name: str) -> None:
        """Sets an options factory, `module.Class`.

        When a job starts, the driver creates a factory without arguments and calls its
        `create_options(current)` with the fields of `RocksDBSettings` that the profile sets. The
        method returns the fields to override.
        """
        load_class(options_factory_class_name, "create_options")
        self._options = options_factory_class_name

    def get_options(self) -> str | None:
        """The options factory, if one is set."""
        return self._options

    def get_number_of_transfer_threads(self) -> int:
        """Files that one state server reads or writes concurrently."""
        return self._threads or _TRANSFER_THREADS

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Sets the files that one state server reads or writes concurrently."""
        if number_of_transfering_threads < 1:
            raise InvalidRequestError(
                f"the number of transfer threads must be at least 1, not "
                f"{number_of_transfering_threads}"
            )
        self._threads = number_of_transfering_threads

    def is_ttl_compaction_filter_enabled(self) -> bool:
        """The value that was set; by default true."""
        return self._ttl_filter

    def enable_ttl_compaction_filter(self) -> None:
        """Keeps that compaction drops expired entries; the `StateTtlConfig` of a state decides."""
        self._ttl_filter = True

    def disable_ttl_compaction_filter(self) -> None:
        """Keeps that compaction does not drop expired entries; the `StateTtlConfig` of a state
        decides."""
        self._ttl_filter = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """State in RocksDB on the executors' disks, checkpoints as files under `checkpoint_data_uri`.

    With a `checkpoint_stream_backend`, that backend determines the location of checkpoints.
    """

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
    ) -> None:
        super().__init__(enable_incremental_checkpointing)
        if checkpoint_data_uri is not None:
            checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        if checkpoint_stream_backend is None:
            raise InvalidRequestError(
                "RocksDBStateBackend needs a checkpoint_data_uri or a checkpoint_stream_backend; "
                "for state in RocksDB without a checkpoint location use EmbeddedRocksDBStateBackend"
            )
        if not isinstance(checkpoint_stream_backend, MemoryStateBackend | FsStateBackend):
            raise InvalidRequestError(
                "checkpoint_stream_backend must be a MemoryStateBackend or an FsStateBackend, not "
                f"{checkpoint_stream_backend!r}"
            )
        self._stream_backend = checkpoint_stream_backend

    def get_checkpoint_backend(self) -> StateBackend:
        """The backend that determines the location of checkpoints."""
        assert self._stream_backend is not None, "the constructor sets it"
        return self._stream_backend

    def get_number_of_transfering_threads(self) -> int:
        """Files that one state server reads or writes concurrently."""
        return self._threads or 1

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """Sets the files that one state server reads or writes concurrently."""
        self.set_number_of_transfer_threads(number_of_transfering_threads)

    def __repr__(self) -> str:
        return f"RocksDBStateBackend({self._stream_backend!r})"


class CustomStateBackend(StateBackend):
    """A state backend that a factory creates in the driver.

    The factory is a `module.Class` with a method `create_from_config(conf)`. `conf` maps setting
    names to values; the method returns a StateBackend.
    """

    kind: ClassVar[Backend] = "heap"

    def __init__(self, factory_class_name: str) -> None:
        load_class(factory_class_name, "create_from_config")
        self._factory = factory_class_name

    def get_factory(self) -> str:
        """`module.Class` of the factory."""
        return self._factory

    def create(self, conf: Mapping[str, Any]) -> StateBackend:
        """Calls the factory and checks its result."""
        made = load_class(self._factory, "create_from_config")().create_from_config(conf)
        if not isinstance(made, StateBackend) or isinstance(made, CustomStateBackend):
            raise InvalidRequestError(
                f"the state backend factory {self._factory} returned {made!r}: it must return a "
                "HashMapStateBackend, EmbeddedRocksDBStateBackend, MemoryStateBackend, "
                "FsStateBackend or RocksDBStateBackend"
            )
        return made

    def __repr__(self) -> str:
        return f"CustomStateBackend({self._factory!r})"


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


def load_class(path: str, method: str) -> Any:
    """Imports `module.Class`; raises InvalidRequestError if the class lacks the method."""
    module, _, name = str(path).rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as problem:
        raise InvalidRequestError(
            f"{path!r} cannot be loaded in the driver: {problem}; give a class as 'module.Class'"
        ) from problem
    if not isinstance(found, type) or not callable(getattr(found, method, None)):
        raise InvalidRequestError(f"{path!r} is not a class with a method {method}")
    return found


def checked_uri(uri: object, what: str) -> str | None:
    """The URI or path without surrounding whitespace and without a slash at its end; None if it is
    not set."""
    if uri is None:
        return None
    text = str(uri).strip()
    if not text:
        raise InvalidRequestError(f"{what} is empty: set a path or a URI, or omit it")
    path = text.rstrip("/")
    return text if not path or path.endswith(":") else path


def _checked_flag(asynchronous: bool | None) -> bool:
    if asynchronous not in (None, True, False):
        raise InvalidRequestError(
            f"using_asynchronous_snapshots must be None, True or False, not {asynchronous!r}"
        )
    return asynchronous is not False


def _unset_below_zero(value: int | None) -> int | None:
    if value is not None and value < -1:
        raise InvalidRequestError(f"a size must be -1 (not set) or at least 0 bytes, not {value}")
    return None if value == -1 else value
