"""Locations of a job's state and of its Spark checkpoint."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.layout import SPARK, beside, quote, root_of
from queryable_state.streaming.config.state_backends import (
    EmbeddedRocksDBStateBackend,
    MemoryStateBackend,
    StateBackend,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.settings.durability_settings import DurabilitySettings

IN_DRIVER: Final = "driver:"


@dataclass(frozen=True, kw_only=True)
class StatePaths:
    """Locations that one job needs to continue after a restart."""

    state_root: str = ""
    """URI of the state root; empty: it is derived from Spark's location."""
    spark_location: str | None = None
    """Spark's checkpointLocation; None: Spark uses a temporary one, or its session's."""
    owned: bool = False
    """True if Spark's location is below the state root and is deleted with it."""

    @property
    def root(self) -> str:
        """The state root, given or derived from Spark's location; empty if state is not durable."""
        if self.state_root or self.spark_location is None:
            return self.state_root
        return beside(self.spark_location)

    @property
    def in_driver(self) -> bool:
        """True if the state is stored in the driver's memory."""
        return self.state_root.startswith(IN_DRIVER)


def paths_of(
    settings: DurabilitySettings,
    backend: StateBackend,
    job_name: str,
    *,
    checkpoint_location: str | None,
    session_location: str,
    checkpointing_enabled: bool,
    restarts: bool,
    scratch: Callable[[], str],
) -> StatePaths:
    """The paths of a job started by `execute`.

    `session_location` is Spark's default folder for checkpoints. `scratch` creates the URI of a
    checkpoint location that lasts as long as the driver; a job without a durable location needs one
    for restarts.
    """
    given = None if checkpoint_location is None else absolute(checkpoint_location)
    directory = backend.checkpoint_directory or settings.checkpoint_directory
    if settings.changelog == "off":
        return StatePaths(spark_location=given or (scratch() if restarts else None))
    if directory:
        root = root_of(absolute(directory), job_name)
        if given is not None:
            return StatePaths(state_root=root, spark_location=given)
        return StatePaths(state_root=root, spark_location=spark_folder(root), owned=True)
    if keeps_in_driver(settings, backend):
        return StatePaths(
            state_root=driver_root(job_name, given or ""), spark_location=given or scratch()
        )
    if given is not None:
        return StatePaths(spark_location=given)
    if session_location:
        return StatePaths()
    if settings.changelog == "on":
        raise InvalidRequestError(
            f"spark.queryable_state.changelog is `on`, but job {job_name!r} has no durable "
            "location for its state: set state.checkpoints.dir, or pass a checkpoint_location to "
            "execute"
        )
    if checkpointing_enabled:
        return StatePaths(state_root=driver_root(job_name), spark_location=scratch())
    return StatePaths(spark_location=scratch() if restarts else None)


def keeps_in_driver(settings: DurabilitySettings, backend: StateBackend) -> bool:
    """True if checkpoints are stored in the driver's memory, for any location of the job."""
    stream = checkpoint_backend(backend)
    return (
        isinstance(stream, MemoryStateBackend)
        and settings.changelog != "off"
        and not (stream.checkpoint_directory or settings.checkpoint_directory)
    )


def driver_root(job_name: str = "job", location: str = "") -> str:
    """A state root in the driver's memory: fixed for a location, random without a location."""
    mark = hashlib.sha256(location.encode()).digest() if location else uuid.uuid4().bytes
    return f"{IN_DRIVER}/{quote(job_name)}-{mark[:6].hex()}"


def checkpoint_backend(backend: StateBackend) -> StateBackend:
    """The backend that determines the location of checkpoints; RocksDB delegates to another one."""
    if isinstance(backend, EmbeddedRocksDBStateBackend):
        return backend.stream_backend or backend
    return backend


def absolute(uri: str) -> str:
    """A URI unchanged; a path made absolute from the driver's working directory.

    Raises InvalidRequestError if it is empty, which would be that directory itself.
    """
    if not uri:
        raise InvalidRequestError(
            "a checkpoint location or savepoint is an empty text: pass a folder or a URI, or leave "
            "the argument out"
        )
    if "://" in uri or uri.startswith(("file:", IN_DRIVER)):
        return uri.rstrip("/") or uri
    return str(Path(uri).absolute())


def is_local(uri: str) -> bool:
    """True if a URI is on the local file system."""
    return uri.startswith(("/", "file:"))


def spark_folder(root: str) -> str:
    """Spark's checkpoint location below a root. A local path gets the scheme `file:`, because
    Spark's default file system may be another."""
    location = join(root, SPARK)
    return f"file://{location}" if location.startswith("/") else location
