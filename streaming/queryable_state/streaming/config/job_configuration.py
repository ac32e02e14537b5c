"""Conversion of the user's settings into the job configuration of the coordinator."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

from queryable_state.server.config.parser import flink_names
from queryable_state.server.coordinator.model.job_config import JobConfig
from queryable_state.server.settings.durability_settings import ExternalizedCheckpointCleanup
from queryable_state.server.storage.rocksdb.settings import PREDEFINED_OPTIONS, RocksDBSettings
from queryable_state.streaming.config.state_backends import (
    CheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    RocksDBStateBackend,
    StateBackend,
    load_class,
    stored_at,
)
from queryable_state.streaming.config.state_paths import IN_DRIVER, absolute, checkpoint_backend
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.server.settings.durability_settings import DurabilitySettings
    from queryable_state.server.settings.shared_settings import Backend
    from queryable_state.streaming.config.checkpoint_config import CheckpointConfig

_BACKGROUND_INTERVAL_MS = 60_000
_DELETED = (
    ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION,
    ExternalizedCheckpointCleanup.NO_EXTERNALIZED_CHECKPOINTS,
)


def backend_of(
    settings: DurabilitySettings,
    given: StateBackend | None,
    storage: CheckpointStorage | None = None,
) -> StateBackend:
    """The backend of a job: the given one, else the configured one, with the location of the
    checkpoint storage: the given one, else the configured one."""
    backend = given if given is not None else configured_backend(settings)
    if isinstance(backend, CustomStateBackend):
        values = dataclasses.asdict(settings)
        names = flink_names(dataclasses.fields(settings))
        conf = {name: values[field] for name, field in names.items()}
        backend = backend.create(values | conf)
    if settings.checkpoint_storage == "filesystem" and not settings.checkpoint_directory:
        raise InvalidRequestError(
            "state.checkpoint-storage `filesystem` needs a checkpoint directory: set "
            "state.checkpoints.dir"
        )
    if storage is None and settings.checkpoint_storage == "jobmanager":
        storage = JobManagerCheckpointStorage(settings.checkpoint_directory or None)
    return backend if storage is None else stored_at(backend, storage)


def server_backend(settings: DurabilitySettings) -> Backend:
    """The default backend of state servers."""
    return "rocksdb" if settings.backend == "rocksdb" else "heap"


def job_config(
    settings: DurabilitySettings,
    backend: StateBackend,
    checkpoints: CheckpointConfig,
    *,
    state_root: str,
) -> JobConfig:
    """The configuration of a job; an empty `state_root` means beside Spark's checkpoint."""
    stream = checkpoint_backend(backend)
    rocksdb = backend if isinstance(backend, EmbeddedRocksDBStateBackend) else None
    inline_bytes = settings.memory_threshold_bytes
    if isinstance(stream, FsStateBackend) and stream.file_threshold is not None:
        inline_bytes = stream.file_threshold
    max_state_bytes = 0
    if isinstance(stream, MemoryStateBackend):
        max_state_bytes = stream.get_max_state_size()
    elif state_root.startswith(IN_DRIVER):
        max_state_bytes = MemoryStateBackend.DEFAULT_MAX_STATE_SIZE
    savepoints = backend.savepoint_directory or settings.savepoint_directory
    interval_ms = checkpoints.get_checkpoint_interval()
    cleanup = checkpoints.get_externalized_checkpoint_cleanup()
    return JobConfig(
        state_root=state_root,
        changelog=settings.changelog != "off",
        storage_options=dict(settings.storage_options),
        fsync=settings.fsync,
        inline_bytes=inline_bytes,
        max_state_bytes=max_state_bytes,
        transfer_threads=_transfer_threads(settings, rocksdb),
        backend=backend.kind,
        rocksdb=_rocksdb_fields(settings, rocksdb),
        rocksdb_directories=_rocksdb_directories(settings, rocksdb),
        incremental=_incremental(settings, rocksdb),
        retained_checkpoints=settings.retained_checkpoints,
        checkpoint_interval_ms=interval_ms if interval_ms > 0 else _BACKGROUND_INTERVAL_MS,
        min_pause_ms=checkpoints.get_min_pause_between_checkpoints(),
        checkpoint_timeout_ms=checkpoints.get_checkpoint_timeout(),
        tolerable_failures=checkpoints.tolerable_failures,
        prefer_checkpoint=checkpoints.is_prefer_checkpoint_for_recovery(),
        savepoint_directory=absolute(savepoints) if savepoints else "",
        delete_on_cancellation=cleanup in _DELETED,
        allow_missing_state=settings.allow_missing_state,
        allow_non_restored_state=settings.savepoint_ignore_unclaimed_state,
    )


def config_id(config: JobConfig) -> str:
    """A hash of the configuration."""
    text = json.dumps(dataclasses.asdict(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def configured_backend(settings: DurabilitySettings) -> StateBackend:
    """The backend that `state.backend` names."""
    name = settings.backend
    if name == "rocksdb":
        return EmbeddedRocksDBStateBackend()
    if name in ("heap", "hashmap"):
        return HashMapStateBackend()
    if name == "jobmanager":
        return MemoryStateBackend()
    if name == "filesystem":
        if not settings.checkpoint_directory:
            raise InvalidRequestError(
                "state.backend `filesystem` needs a checkpoint directory: set state.checkpoints.dir"
            )
        return FsStateBackend(settings.checkpoint_directory)
    return CustomStateBackend(name)


def _is_set(settings: DurabilitySettings, field: str) -> bool:
    """True if a setting differs from its default."""
    defaults = {setting.name: setting.default for setting in dataclasses.fields(settings)}
    return bool(getattr(settings, field) != defaults[field])


def _incremental(settings: DurabilitySettings, rocksdb: EmbeddedRocksDBStateBackend | None) -> bool:
    if rocksdb is None:
        return settings.incremental
    if rocksdb.incremental is not None:
        return rocksdb.incremental
    if isinstance(rocksdb, RocksDBStateBackend) and not _is_set(settings, "incremental"):
        return rocksdb.is_incremental_checkpoints_enabled()
    return settings.incremental


def _transfer_threads(
    settings: DurabilitySettings, rocksdb: EmbeddedRocksDBStateBackend | None
) -> int:
    if rocksdb is None:
        return settings.transfer_threads
    if rocksdb.transfer_threads is not None:
        return rocksdb.transfer_threads
    if isinstance(rocksdb, RocksDBStateBackend) and not _is_set(settings, "transfer_threads"):
        return rocksdb.get_number_of_transfering_threads()
    return settings.transfer_threads


def _rocksdb_directories(
    settings: DurabilitySettings, rocksdb: EmbeddedRocksDBStateBackend | None
) -> tuple[str, ...]:
    given = tuple(rocksdb.get_db_storage_paths()) if rocksdb is not None else ()
    configured = (path.strip() for path in settings.rocksdb_directories.split(","))
    return given or tuple(path for path in configured if path)


def _rocksdb_fields(
    settings: DurabilitySettings, rocksdb: EmbeddedRocksDBStateBackend | None
) -> dict[str, Any]:
    """Fields of the profile, overridden by those of the options factory."""
    name = settings.rocksdb_predefined_options.strip().upper()
    factory = settings.rocksdb_options_factory
    if rocksdb is not None:
        if rocksdb.predefined_options is not None:
            name = rocksdb.predefined_options.name
        factory = rocksdb.get_options() or factory
    if name not in PREDEFINED_OPTIONS:
        raise InvalidRequestError(
            f"{name!r} is not one of the predefined options: {', '.join(PREDEFINED_OPTIONS)}"
        )
    fields: dict[str, Any] = dict(PREDEFINED_OPTIONS[name])
    if factory:
        made = load_class(factory, "create_options")().create_options(dict(fields))
        try:
            fields |= dict(made)
        except (TypeError, ValueError):
            raise InvalidRequestError(
                f"the options factory {factory} returned {made!r}: it must return a mapping of "
                "fields of RocksDBSettings"
            ) from None
    RocksDBSettings.of(fields)
    return fields
