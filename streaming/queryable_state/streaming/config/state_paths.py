"""Where the state of a job and Spark's checkpoint of it are kept."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.layout import SPARK, beside, quote, root_of
from queryable_state.streaming.config.state_backend import MemoryStateBackend, StateBackend
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.settings import Backend
    from queryable_state.streaming.config.durability_settings import DurabilitySettings

IN_DRIVER: Final = "driver:"


@dataclass(frozen=True, kw_only=True)
class StatePaths:
    """Where one job keeps what it needs to go on."""

    state_root: str = ""
    """URI of the state root, where it does not follow from Spark's location."""
    spark_location: str | None = None
    """Spark's checkpointLocation; None: Spark takes a temporary one, or its session's."""
    owned: bool = False
    """Spark's location is ours: it is below the root, and goes with it."""

    @property
    def root(self) -> str:
        """The state root, also where it follows from Spark's location; empty: none lasts."""
        if self.state_root or self.spark_location is None:
            return self.state_root
        return beside(self.spark_location)

    @property
    def in_driver(self) -> bool:
        """Whether the state is kept in the driver's memory."""
        return self.state_root.startswith(IN_DRIVER)


def place_of(
    settings: DurabilitySettings,
    backend: StateBackend | Backend,
    job_name: str,
    *,
    checkpoint_location: str | None,
    session_location: str,
    checkpointing_enabled: bool,
    restarts: bool,
    scratch: Callable[[], str],
) -> StatePaths:
    """The place of a job started by `execute`.

    `session_location` is where Spark puts checkpoints of queries that name none, `scratch` makes
    a URI for one that lasts as long as the driver, which a job without a lasting place needs in
    order to be restarted.
    """
    given = None if checkpoint_location is None else absolute(checkpoint_location)
    directory = settings.checkpoint_directory
    if isinstance(backend, StateBackend):
        directory = backend.checkpoint_directory or directory
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
            f"changelog is `on`, and job {job_name!r} has no lasting place for its state: set "
            "state.checkpoints.dir, or give execute a checkpoint_location"
        )
    if checkpointing_enabled:
        return StatePaths(state_root=driver_root(job_name), spark_location=scratch())
    return StatePaths(spark_location=scratch() if restarts else None)


def keeps_in_driver(settings: DurabilitySettings, backend: StateBackend | Backend) -> bool:
    """Whether checkpoints go to the driver's memory, whatever the job's location is."""
    stream = checkpoint_backend(backend)
    return (
        isinstance(stream, MemoryStateBackend)
        and settings.changelog != "off"
        and not (stream.checkpoint_directory or settings.checkpoint_directory)
    )


def driver_root(job_name: str = "job", location: str = "") -> str:
    """A root in the driver's memory; a location that is given finds its state there again."""
    mark = hashlib.sha256(location.encode()).digest() if location else uuid.uuid4().bytes
    return f"{IN_DRIVER}/{quote(job_name)}-{mark[:6].hex()}"


def checkpoint_backend(backend: StateBackend | Backend) -> StateBackend | Backend:
    """Who keeps the checkpoints of a backend: RocksDB leaves it to another one."""
    get = getattr(backend, "get_checkpoint_backend", None)
    return backend if get is None else get()


def absolute(uri: str) -> str:
    """A URI as it is; a path from the driver's folder on."""
    if "://" in uri or uri.startswith(("file:", IN_DRIVER)):
        return uri.rstrip("/") or uri
    return str(Path(uri).absolute())


def is_local(uri: str) -> bool:
    """Whether a URI is of the local file system."""
    return uri.startswith(("/", "file:"))


def spark_folder(root: str) -> str:
    """Spark's checkpoint below a root; a local one stays local whatever Spark's file system is."""
    location = join(root, SPARK)
    return f"file://{location}" if location.startswith("/") else location
