"""Where a job's state lives while it runs, and where its checkpoints go: PyFlink's state backends.

An object has PyFlink's defaults; a job without one has those of `EnvironmentSettings`. What an
object leaves open (`None`) is taken from the settings first.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.settings import Backend

_LARGEST_FILE_THRESHOLD = 1024 * 1024
_DEFAULT_WRITE_BUFFER = 4096


class StateBackend(ABC):
    """One of the backends below; what a job takes is read when it starts."""

    kind: ClassVar[Backend]
    """Where the state lives while the job runs."""

    @property
    @abstractmethod
    def checkpoint_directory(self) -> str | None:
        """URI under which jobs keep their checkpoints; None: as the settings say."""

    @property
    @abstractmethod
    def savepoint_directory(self) -> str | None:
        """URI under which savepoints are made; None: as the settings say."""


class MemoryStateBackend(StateBackend):
    """State on the heap, checkpoints in the driver's memory: they outlive servers and executors,
    not the driver. With a `checkpoint_path`, or `state.checkpoints.dir` set, they are files there.

    For small state: a state of one subtask over `max_state_size` fails the checkpoint.
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
            raise InvalidRequestError(f"max_state_size is 1 or more bytes, not {max_state_size}")
        self._max_state_size = max_state_size or self.DEFAULT_MAX_STATE_SIZE
        self._asynchronous = _checked_flag(using_asynchronous_snapshots)

    @property
    def checkpoint_directory(self) -> str | None:
        return self._checkpoint_path

    @property
    def savepoint_directory(self) -> str | None:
        return self._savepoint_path

    def get_max_state_size(self) -> int:
        """Bytes one state of one subtask may have in a checkpoint."""
        return self._max_state_size

    def is_using_asynchronous_snapshots(self) -> bool:
        """As given; snapshots are asynchronous either way."""
        return self._asynchronous

    def __repr__(self) -> str:
        return f"MemoryStateBackend(max_state_size={self._max_state_size})"


class FsStateBackend(StateBackend):
    """State on the heap, checkpoints as files under a directory."""

    kind: ClassVar[Backend] = "heap"

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
        self._directory = directory
        self._savepoints = checked_uri(
            default_savepoint_directory_uri, "default_savepoint_directory_uri"
        )
        self._threshold = _unset_below_zero(file_state_size_threshold)
        if self._threshold is not None and self._threshold > _LARGEST_FILE_THRESHOLD:
            raise InvalidRequestError(
                f"file_state_size_threshold is at most {_LARGEST_FILE_THRESHOLD} bytes, not "
                f"{self._threshold}: all that is below it is held in the driver's memory"
            )
        self._write_buffer = _unset_below_zero(write_buffer_size)
        self._asynchronous = _checked_flag(using_asynchronous_snapshots)

    @property
    def checkpoint_directory(self) -> str:
        return self._directory

    @property
    def savepoint_directory(self) -> str | None:
        return self._savepoints

    @property
    def file_threshold(self) -> int | None:
        """As given; None: as the settings say."""
        return self._threshold

    def get_checkpoint_path(self) -> str:
        """The directory under which each job has a folder by its name."""
        return self._directory

    def get_min_file_size_threshold(self) -> int:
        """Files of a checkpoint up to so many bytes are kept within its metadata."""
        return 20480 if self._threshold is None else self._threshold

    def get_write_buffer_size(self) -> int:
        """As given; files are written whole, so that it changes nothing."""
        return _DEFAULT_WRITE_BUFFER if self._write_buffer is None else self._write_buffer

    def is_using_asynchronous_snapshots(self) -> bool:
        """As given; snapshots are asynchronous either way."""
        return self._asynchronous

    def __repr__(self) -> str:
        return f"FsStateBackend({self._directory!r})"


class PredefinedOptions(IntEnum):
    """Profiles of RocksDB options, for kinds of disks."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class RocksDBStateBackend(StateBackend):
    """State in RocksDB on the executors' disks, checkpoints as files under a directory.

    Or, with a `checkpoint_stream_backend`, wherever that one has its checkpoints.
    """

    kind: ClassVar[Backend] = "rocksdb"

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
    ) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise InvalidRequestError(
                "enable_incremental_checkpointing is None, True or False, not "
                f"{enable_incremental_checkpointing!r}"
            )
        if checkpoint_data_uri is not None:
            checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        if checkpoint_stream_backend is None:
            raise InvalidRequestError(
                "RocksDBStateBackend needs a checkpoint_data_uri or a checkpoint_stream_backend; "
                "for state in RocksDB without checkpoints there is set_state_backend('rocksdb')"
            )
        if not isinstance(checkpoint_stream_backend, MemoryStateBackend | FsStateBackend):
            raise InvalidRequestError(
                "checkpoint_stream_backend is a MemoryStateBackend or an FsStateBackend, not "
                f"{checkpoint_stream_backend!r}"
            )
        self._stream_backend = checkpoint_stream_backend
        self._incremental = enable_incremental_checkpointing
        self._storage_paths: tuple[str, ...] = ()
        self._predefined: PredefinedOptions | None = None
        self._options: str | None = None
        self._threads: int | None = None
        self._ttl_filter = False

    @property
    def checkpoint_directory(self) -> str | None:
        return self._stream_backend.checkpoint_directory

    @property
    def savepoint_directory(self) -> str | None:
        return self._stream_backend.savepoint_directory

    @property
    def incremental(self) -> bool | None:
        """As given; None: as the settings say."""
        return self._incremental

    @property
    def predefined_options(self) -> PredefinedOptions | None:
        """As given; None: as the settings say."""
        return self._predefined

    @property
    def transfer_threads(self) -> int | None:
        """As given; None: as the settings say."""
        return self._threads

    def get_checkpoint_backend(self) -> StateBackend:
        """The backend that keeps the checkpoints."""
        return self._stream_backend

    def set_db_storage_paths(self, *paths: str | None) -> None:
        """Folders on each executor for live RocksDB files, taken in turns; none: the default."""
        if any(path is not None and not path.startswith("/") for path in paths):
            raise InvalidRequestError(
                f"a storage path of RocksDB is an absolute local path, unlike one of {paths}"
            )
        self._storage_paths = tuple(path for path in paths if path is not None)

    def get_db_storage_paths(self) -> list[str]:
        """As set."""
        return list(self._storage_paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether a checkpoint writes only the files that are new since the one before."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """A profile; what the options factory returns goes on top of it."""
        try:
            self._predefined = PredefinedOptions(options)
        except ValueError:
            known = ", ".join(profile.name for profile in PredefinedOptions)
            raise InvalidRequestError(
                f"{options!r} is none of the predefined options: {known}"
            ) from None

    def get_predefined_options(self) -> PredefinedOptions:
        """As set."""
        return self._predefined or PredefinedOptions.DEFAULT

    def set_options(self, options_factory_class_name: str) -> None:
        """An options factory, `module.Class`.

        A job that starts makes one in the driver, without arguments, and asks its
        `create_options(current)`: it gets the fields of `RocksDBSettings` that the profile sets and
        returns those it wants to set.
        """
        load_class(options_factory_class_name, "create_options")
        self._options = options_factory_class_name

    def get_options(self) -> str | None:
        """The options factory, if one is set."""
        return self._options

    def get_number_of_transfering_threads(self) -> int:
        """Files read or written at once by one state server."""
        return self._threads or 1

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """Files read or written at once by one state server."""
        if number_of_transfering_threads < 1:
            raise InvalidRequestError(
                f"transfers need at least one thread, not {number_of_transfering_threads}"
            )
        self._threads = number_of_transfering_threads

    def is_ttl_compaction_filter_enabled(self) -> bool:
        """Whether compaction may drop entries that are past their time to live."""
        return self._ttl_filter

    def enable_ttl_compaction_filter(self) -> None:
        """Lets compaction drop entries that are past their time to live."""
        self._ttl_filter = True

    def __repr__(self) -> str:
        return f"RocksDBStateBackend({self._stream_backend!r})"


class CustomStateBackend(StateBackend):
    """The backend a factory makes, which runs in the driver.

    It is a `module.Class` with a method `create_from_config(conf)`, which is given the settings by
    their names and returns a StateBackend.
    """

    kind: ClassVar[Backend] = "heap"

    def __init__(self, factory_class_name: str) -> None:
        load_class(factory_class_name, "create_from_config")
        self._factory = factory_class_name

    @property
    def checkpoint_directory(self) -> str | None:
        return None

    @property
    def savepoint_directory(self) -> str | None:
        return None

    def get_factory(self) -> str:
        """`module.Class` of the factory."""
        return self._factory

    def create(self, conf: Mapping[str, Any]) -> StateBackend:
        """What the factory makes of the settings."""
        made = load_class(self._factory, "create_from_config")().create_from_config(conf)
        if not isinstance(made, StateBackend) or isinstance(made, CustomStateBackend):
            raise InvalidRequestError(
                f"the state backend factory {self._factory} returned {made!r}: it is to return a "
                "MemoryStateBackend, FsStateBackend or RocksDBStateBackend"
            )
        return made

    def __repr__(self) -> str:
        return f"CustomStateBackend({self._factory!r})"


def load_class(path: str, method: str) -> Any:
    """A class of the driver by `module.Class`; it has to have a method."""
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
    """A directory's URI or path as the user gave it; None: not given."""
    if uri is None:
        return None
    text = str(uri).strip()
    if not text:
        raise InvalidRequestError(f"{what} is empty: give a path or a URI, or leave it out")
    return text


def _checked_flag(asynchronous: bool | None) -> bool:
    if asynchronous not in (None, True, False):
        raise InvalidRequestError(
            f"using_asynchronous_snapshots is None, True or False, not {asynchronous!r}"
        )
    return asynchronous is not False


def _unset_below_zero(value: int | None) -> int | None:
    if value is not None and value < -1:
        raise InvalidRequestError(f"a size is -1 (not set) or more bytes, not {value}")
    return None if value == -1 else value
