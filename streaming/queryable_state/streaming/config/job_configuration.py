"""Conversion of the user's settings into the job configuration of the coordinator."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import TYPE_CHECKING, Any

from queryable_state.server.coordinator.model.job_config import JobConfig
from queryable_state.server.storage.rocksdb.settings import PREDEFINED_OPTIONS, RocksDBSettings
from queryable_state.streaming.config.checkpoint_config import ExternalizedCheckpointCleanup
from queryable_state.streaming.config.durability_settings import FLINK_NAMES
from queryable_state.streaming.config.rocksdb_state_backend import RocksDBStateBackend
from queryable_state.streaming.config.state_backend import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    StateBackend,
    load_class,
)
from queryable_state.streaming.config.state_paths import IN_DRIVER, absolute
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.server.settings import Backend
    from queryable_state.streaming.config.checkpoint_config import CheckpointConfig
    from queryable_state.streaming.config.durability_settings import DurabilitySettings

_BACKGROUND_INTERVAL_MS = 60_000


def backend_of(settings: DurabilitySettings, given: StateBackend | None) -> StateBackend | Backend:
    """The backend of a job: the given object, else the configured one; `heap` and `rocksdb` without
    a PyFlink object are returned as kinds."""
    backend = given if given is not None else _configured_backend(settings)
    if isinstance(backend, CustomStateBackend):
        values = dataclasses.asdict(settings)
        conf = {name: values[field] for name, field in FLINK_NAMES.items()}
        return backend.create(values | conf)
    return backend


def kind_of(backend: StateBackend | Backend) -> Backend:
    """The store of a backend's state while the job runs."""
    return backend.kind if isinstance(backend, StateBackend) else backend


def server_backend(settings: DurabilitySettings) -> Backend:
    """The default backend of state servers."""
    return "rocksdb" if settings.backend == "rocksdb" else "heap"


def job_config(
    settings: DurabilitySettings,
    backend: StateBackend | Backend,
    checkpoints: CheckpointConfig,
    *,
    state_root: str,
) -> JobConfig:
    """The configuration of a job; an empty `state_root` means beside Spark's checkpoint."""
    stream, rocksdb = backend, None
    if isinstance(backend, RocksDBStateBackend):
        stream, rocksdb = backend.get_checkpoint_backend(), backend
    inline_bytes = settings.memory_threshold_bytes
    if isinstance(stream, FsStateBackend) and stream.file_threshold is not None:
        inline_bytes = stream.file_threshold
    max_state_bytes = 0
    if isinstance(stream, MemoryStateBackend):
        max_state_bytes = stream.get_max_state_size()
    elif state_root.startswith(IN_DRIVER):
        max_state_bytes = MemoryStateBackend.DEFAULT_MAX_STATE_SIZE
    savepoints = backend.savepoint_directory if isinstance(backend, StateBackend) else None
    savepoints = savepoints or settings.savepoint_directory
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
        backend=kind_of(backend),
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
        delete_on_cancellation=cleanup is ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION,
        allow_missing_state=settings.allow_missing_state,
        allow_non_restored_state=settings.savepoint_ignore_unclaimed_state,
    )


def config_id(config: JobConfig) -> str:
    """A hash of the configuration."""
    text = json.dumps(dataclasses.asdict(config), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _configured_backend(settings: DurabilitySettings) -> StateBackend | Backend:
    name = settings.backend
    if name == "rocksdb":
        return "rocksdb"
    if name in ("heap", "hashmap"):
        return "heap"
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


def _incremental(settings: DurabilitySettings, rocksdb: RocksDBStateBackend | None) -> bool:
    if rocksdb is None or (rocksdb.incremental is None and _is_set(settings, "incremental")):
        return settings.incremental
    return rocksdb.is_incremental_checkpoints_enabled()


def _transfer_threads(settings: DurabilitySettings, rocksdb: RocksDBStateBackend | None) -> int:
    if rocksdb is None or (
        rocksdb.transfer_threads is None and _is_set(settings, "transfer_threads")
    ):
        return settings.transfer_threads
    return rocksdb.get_number_of_transfering_threads()


def _rocksdb_directories(
    settings: DurabilitySettings, rocksdb: RocksDBStateBackend | None
) -> tuple[str, ...]:
    given = tuple(rocksdb.get_db_storage_paths()) if rocksdb is not None else ()
    configured = (path.strip() for path in settings.rocksdb_directories.split(","))
    return given or tuple(path for path in configured if path)


def _rocksdb_fields(
    settings: DurabilitySettings, rocksdb: RocksDBStateBackend | None
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
