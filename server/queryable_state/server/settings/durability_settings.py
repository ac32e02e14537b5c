"""Settings of state backends, checkpoints, savepoints and restarts, with PyFlink's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from queryable_state.server.config.setting import (
    DAY_MS,
    GIB,
    LARGEST_INT,
    SettingsGroup,
    setting,
)
from queryable_state.server.storage.rocksdb.settings import PREDEFINED_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANGELOG_CHOICES: Final = ("auto", "on", "off")
BACKEND_NAMES: Final = ("heap", "rocksdb", "hashmap", "filesystem", "jobmanager")
STORAGE_NAMES: Final = ("jobmanager", "filesystem")
RESTART_STRATEGIES: Final = ("", "none", "off", "disable", "fixed-delay", "failure-rate")

_YEAR_MS: Final = 365 * DAY_MS


class CheckpointingMode(IntEnum):
    """Delivery guarantee of a job's state.

    Both modes run the same exactly-once protocol. Spark never replays a committed batch, so a
    weaker protocol would lose records instead of repeating them.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointCleanup(IntEnum):
    """Cleanup of a job's checkpoints when the job is cancelled; a failed job keeps them."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """Same as `DELETE_ON_CANCELLATION`; the checkpoints do not count as externalized."""


ExternalizedCheckpointRetention = ExternalizedCheckpointCleanup
"""The same enum under the name of Flink 1.20."""


def _check_backend(name: str) -> None:
    if name not in BACKEND_NAMES and "." not in name:
        raise ValueError(f"use one of {', '.join(BACKEND_NAMES)}, or a factory as 'module.Class'")


@dataclass(frozen=True, kw_only=True)
class DurabilitySettings(SettingsGroup):
    """Defaults for all jobs of an environment; settings of a job override them."""

    backend: str = setting(
        "hashmap",
        check=_check_backend,
        text="one of " + ", ".join(BACKEND_NAMES) + ", or module.Class",
        flink=("state.backend", "state.backend.type"),
    )
    """State backend of running jobs: `hashmap` (also `heap`, `filesystem`), `rocksdb`,
    `jobmanager` for a MemoryStateBackend, or `module.Class` of a state backend factory."""

    checkpoint_directory: str = setting(
        "", flink=("state.checkpoints.dir", "execution.checkpointing.dir")
    )
    """Path or URI, reachable from the driver and all executors, under which each job has a folder
    of its name. Empty: state is stored beside the job's checkpoint location, if it has one."""

    savepoint_directory: str = setting(
        "", flink=("state.savepoints.dir", "execution.checkpointing.savepoint-dir")
    )
    """Default path or URI for savepoints."""

    checkpoint_storage: str = setting(
        "",
        choices=("", *STORAGE_NAMES),
        flink=("state.checkpoint-storage", "execution.checkpointing.storage"),
    )
    """Location of checkpoints: `filesystem` (under `state.checkpoints.dir`) or `jobmanager` (the
    driver's memory); empty: that of the state backend."""

    changelog: str = setting("auto", choices=CHANGELOG_CHOICES)
    """Whether state survives its server: `auto` (if the job has a durable location), `on` (a job
    without a durable location is refused) or `off`."""

    allow_missing_state: bool = False
    """True: a query with committed batches starts with empty state if its state is missing; False:
    it is refused."""

    fsync: bool = False
    """True: call fsync on files on local disks, so that they survive a power failure."""

    storage_options: Mapping[str, Any] = setting(default_factory=dict, secret=True)
    """File system options of the directories (for S3: `endpoint_url`, `key`, `secret` ...); a JSON
    object if given as text."""

    memory_threshold_bytes: int = setting(
        20480,
        least=0,
        most=GIB,
        flink=(
            "state.backend.fs.memory-threshold",
            "state.storage.fs.memory-threshold",
            "execution.checkpointing.data-inline-threshold",
        ),
    )
    """Checkpoint files up to this size are stored in the checkpoint's metadata."""

    retained_checkpoints: int = setting(
        2,
        least=1,
        most=100_000,
        flink=("state.checkpoints.num-retained", "execution.checkpointing.num-retained"),
    )
    """Number of newest checkpoints to keep."""

    incremental: bool = setting(
        True, flink=("state.backend.incremental", "execution.checkpointing.incremental")
    )
    """Whether a RocksDB checkpoint writes only the files that are new since the last checkpoint."""

    rocksdb_directories: str = setting("", flink=("state.backend.rocksdb.localdir",))
    """Comma-separated folders on each executor for live RocksDB files; empty: `directory`."""

    rocksdb_predefined_options: str = setting(
        "DEFAULT",
        choices=tuple(PREDEFINED_OPTIONS),
        flink=("state.backend.rocksdb.predefined-options",),
    )
    """A profile of `PredefinedOptions`."""

    rocksdb_options_factory: str = setting("", flink=("state.backend.rocksdb.options-factory",))
    """`module.Class` of an options factory; see `RocksDBStateBackend.set_options`."""

    transfer_threads: int = setting(
        4, least=1, most=256, flink=("state.backend.rocksdb.checkpoint.transfer.thread.num",)
    )
    """Files that one state server reads or writes concurrently."""

    checkpoint_interval_ms: int = setting(
        0, least=10, most=_YEAR_MS, special=(0,), flink=("execution.checkpointing.interval",)
    )
    """Same as the interval of `enable_checkpointing`; 0: checkpointing is not enabled."""

    checkpointing_mode: str = setting(
        "EXACTLY_ONCE",
        choices=[mode.name for mode in CheckpointingMode],
        flink=("execution.checkpointing.mode",),
    )
    """A name of `CheckpointingMode`."""

    checkpoint_timeout_ms: int = setting(
        600_000, least=10, most=_YEAR_MS, flink=("execution.checkpointing.timeout",)
    )
    """Time after which a running checkpoint fails."""

    min_pause_ms: int = setting(
        0, least=0, most=_YEAR_MS, flink=("execution.checkpointing.min-pause",)
    )
    """Minimum time between the end of a checkpoint and the start of the next."""

    max_concurrent_checkpoints: int = setting(
        1, least=1, most=LARGEST_INT, flink=("execution.checkpointing.max-concurrent-checkpoints",)
    )
    """Accepted for compatibility with Flink; there is never more than one."""

    tolerable_failed_checkpoints: int = setting(
        -1,
        least=0,
        most=LARGEST_INT,
        special=(-1,),
        flink=("execution.checkpointing.tolerable-failed-checkpoints",),
    )
    """Consecutive checkpoints that may fail; -1: 0 with `enable_checkpointing`, else unlimited."""

    externalized_retention: str = setting(
        "",
        choices=["", *(cleanup.name for cleanup in ExternalizedCheckpointCleanup)],
        flink=("execution.checkpointing.externalized-checkpoint-retention",),
    )
    """A name of `ExternalizedCheckpointCleanup`; empty: retained."""

    prefer_checkpoint_for_recovery: bool = setting(
        False, flink=("execution.checkpointing.prefer-checkpoint-for-recovery",)
    )
    """Same as `CheckpointConfig.set_prefer_checkpoint_for_recovery`."""

    savepoint_path: str = setting(
        "", flink=("execution.savepoint.path", "execution.state-recovery.path")
    )
    """URI of the default savepoint to start jobs from; empty: none."""

    savepoint_ignore_unclaimed_state: bool = setting(
        False,
        flink=(
            "execution.savepoint.ignore-unclaimed-state",
            "execution.state-recovery.ignore-unclaimed-state",
        ),
    )
    """True: a savepoint may contain state of operators that the job does not have."""

    restart_strategy: str = setting(
        "", choices=RESTART_STRATEGIES, flink=("restart-strategy", "restart-strategy.type")
    )
    """`none`, `fixed-delay` or `failure-rate`; empty: see `RestartStrategies`."""

    restart_attempts: int = setting(
        1, least=0, most=LARGEST_INT, flink=("restart-strategy.fixed-delay.attempts",)
    )
    """Maximum number of restarts of `fixed-delay`."""

    restart_delay_ms: int = setting(
        1_000, least=0, most=_YEAR_MS, flink=("restart-strategy.fixed-delay.delay",)
    )
    """Time before a restart of `fixed-delay`."""

    restart_max_failures: int = setting(
        1,
        least=1,
        most=LARGEST_INT,
        flink=("restart-strategy.failure-rate.max-failures-per-interval",),
    )
    """Maximum failures per interval of `failure-rate`; one more ends the job."""

    restart_failure_interval_ms: int = setting(
        60_000,
        least=1,
        most=_YEAR_MS,
        flink=("restart-strategy.failure-rate.failure-rate-interval",),
    )
    """Interval in which `failure-rate` counts failures."""

    restart_failure_delay_ms: int = setting(
        1_000, least=0, most=_YEAR_MS, flink=("restart-strategy.failure-rate.delay",)
    )
    """Time before a restart of `failure-rate`."""
