"""Configuration of one job's state: format, place and checkpoints."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.internal.v1 import checkpoint_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.v1.registration_pb2 import StateRegistration


@dataclass(frozen=True, kw_only=True)
class JobConfig:
    """What the driver set for the durable state of a job."""

    state_root: str = ""
    """URI of the job's state root; empty: beside the query's checkpoint location."""
    changelog: bool = True
    """True makes state durable if the job has a lasting root; False never does."""
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the file system of the root."""
    fsync: bool = False
    """Whether files on a local disk survive a power cut."""
    inline_bytes: int = 20480
    """Files of a checkpoint up to this size stand in its metadata; 0: none."""
    max_state_bytes: int = 0
    """Bytes one state of one subtask may have in a snapshot; 0: any."""
    transfer_threads: int = 4
    """Files read or written at once by one server."""
    backend: str = ""
    """`heap` or `rocksdb`; empty: as the servers were started."""
    rocksdb: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `RocksDBSettings` that differ from their defaults."""
    rocksdb_directories: tuple[str, ...] = ()
    """Folders for live RocksDB stores, taken in turns; none: the server's own."""
    incremental: bool = True
    """Whether checkpoints of RocksDB share files with the ones before."""
    retained_checkpoints: int = 2
    """Newest checkpoints that are kept, at least 1."""
    checkpoint_interval_ms: int = 60_000
    """From the start of a checkpoint to that of the next; 0: none by themselves."""
    min_pause_ms: int = 0
    """From the end of a checkpoint to the start of the next."""
    checkpoint_timeout_ms: int = 600_000
    """A checkpoint that takes longer is given up."""
    tolerable_failures: int = -1
    """Checkpoints in a row that may fail before the job does; -1: any number."""
    prefer_checkpoint: bool = False
    """Whether a server that is lost is followed by one that reads a checkpoint although there is a
    newer savepoint of the run."""
    savepoint_directory: str = ""
    """URI of the folder for savepoints that name none."""
    delete_on_cancellation: bool = False
    """Whether cancelling the job removes what its root holds."""
    allow_missing_state: bool = False
    """Whether a query past its first batches may go on where its state is missing: without it."""
    allow_non_restored_state: bool = False
    """Whether the job may have lost operators its root has state of: that is left out."""

    operators: Mapping[str, str] | None = None
    """Names of all operators of the job by uid; None: the engine tells those of the query."""

    declared: Sequence[StateRegistration] = ()
    """States of the job as far as the driver knows them: what is stored of them is answered in
    their types, also before a batch registers them."""

    def storage(self, root: str) -> checkpoint_pb2.JobStorage:
        """What a server must know to keep the state; an empty root: nothing is durable."""
        return checkpoint_pb2.JobStorage(
            root=root,
            file_system_options=_json(self.storage_options),
            fsync=self.fsync,
            backend=self.backend,
            rocksdb_settings=_json(self.rocksdb),
            rocksdb_directories=self.rocksdb_directories,
            inline_bytes=self.inline_bytes,
            max_state_bytes=self.max_state_bytes,
            transfer_threads=self.transfer_threads,
        )


class JobConfigs:
    """The configurations the driver has given out, by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._configs: dict[str, JobConfig] = {}

    def configure(self, config_id: str, config: JobConfig) -> None:
        """Sets a configuration; counts for runs that begin from now on. Empty id: the default."""
        with self._lock:
            self._configs[config_id] = config

    def find(self, config_id: str) -> JobConfig:
        """The configuration of an id; the default where the id is empty or not known."""
        with self._lock:
            return self._configs.get(config_id) or self._configs.get("") or JobConfig()


def _json(options: Mapping[str, Any]) -> str:
    return json.dumps(dict(options), sort_keys=True) if options else ""
