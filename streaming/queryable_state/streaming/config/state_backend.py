"""State backends: the store of a running job's state, and the location of its checkpoints.

The classes are PyFlink's, with PyFlink's defaults. Values that an object does not set (`None`) are
taken from `EnvironmentSettings`, as for a job without a state backend object.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.config.backends import Backend

_DEFAULT_WRITE_BUFFER = 4096


class StateBackend(ABC):
    """A state backend; a job reads it when it starts."""

    kind: ClassVar[Backend]
    """Store of the state while the job runs."""

    @property
    @abstractmethod
    def checkpoint_directory(self) -> str | None:
        """URI under which jobs store checkpoints; None: `state.checkpoints.dir`."""

    @property
    @abstractmethod
    def savepoint_directory(self) -> str | None:
        """URI under which savepoints are stored; None: `state.savepoints.dir`."""


class HashMapStateBackend(StateBackend):
    """State on the heap; `CheckpointConfig.set_checkpoint_storage` or `state.checkpoints.dir` sets
    the location of checkpoints."""

    kind: ClassVar[Backend] = "heap"

    @property
    def checkpoint_directory(self) -> None:
        return None

    @property
    def savepoint_directory(self) -> None:
        return None

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

    @property
    def checkpoint_directory(self) -> str | None:
        return self._checkpoint_path

    @property
    def savepoint_directory(self) -> str | None:
        return self._savepoint_path

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
        self._directory = directory
        self._savepoints = checked_uri(
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
    def checkpoint_directory(self) -> str:
        return self._directory

    @property
    def savepoint_directory(self) -> str | None:
        return self._savepoints

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


class CustomStateBackend(StateBackend):
    """A state backend that a factory creates in the driver.

    The factory is a `module.Class` with a method `create_from_config(conf)`. `conf` maps setting
    names to values; the method returns a StateBackend.
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
