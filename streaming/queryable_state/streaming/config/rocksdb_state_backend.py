"""State backends with the state in RocksDB, with PyFlink's names."""

from __future__ import annotations

import copy
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import urlsplit

from queryable_state.streaming.config.state_backend import (
    FsStateBackend,
    MemoryStateBackend,
    StateBackend,
    load_class,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.server.config.backends import Backend


_TRANSFER_THREADS = 4


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
