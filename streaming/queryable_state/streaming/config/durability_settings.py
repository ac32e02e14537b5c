"""Settings of state backends, checkpoints, savepoints and restarts, with PyFlink's names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CHANGELOG_CHOICES: Final = ("auto", "on", "off")
BACKEND_NAMES: Final = ("heap", "rocksdb", "hashmap", "filesystem", "jobmanager")
STORAGE_NAMES: Final = ("jobmanager", "filesystem")


@dataclass(frozen=True, kw_only=True)
class DurabilitySettings:
    """Defaults for all jobs of an environment; settings of a job override them."""

    backend: str = field(
        default="hashmap", metadata={"flink": ("state.backend", "state.backend.type")}
    )
    """State backend of running jobs: `hashmap` (also `heap`, `filesystem`), `rocksdb`,
    `jobmanager` for a MemoryStateBackend, or `module.Class` of a state backend factory."""

    checkpoint_directory: str = field(
        default="", metadata={"flink": ("state.checkpoints.dir", "execution.checkpointing.dir")}
    )
    """Path or URI, reachable from the driver and all executors, under which each job has a folder
    of its name. Empty: state is stored beside the job's checkpoint location, if it has one."""

    savepoint_directory: str = field(
        default="",
        metadata={"flink": ("state.savepoints.dir", "execution.checkpointing.savepoint-dir")},
    )
    """Default path or URI for savepoints."""

    checkpoint_storage: str = field(
        default="",
        metadata={"flink": ("state.checkpoint-storage", "execution.checkpointing.storage")},
    )
    """Location of checkpoints: `filesystem` (under `state.checkpoints.dir`) or `jobmanager` (the
    driver's memory); empty: that of the state backend."""

    changelog: str = "auto"
    """Whether state survives its server: `auto` (if the job has a durable location), `on` (a job
    without a durable location is refused) or `off`."""

    allow_missing_state: bool = False
    """True: a query with committed batches starts with empty state if its state is missing; False:
    it is refused."""

    fsync: bool = False
    """True: call fsync on files on local disks, so that they survive a power failure."""

    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """File system options of the directories (for S3: `endpoint_url`, `key`, `secret` ...); a JSON
    object if given as text."""

    memory_threshold_bytes: int = field(
        default=20480,
        metadata={
            "flink": (
                "state.backend.fs.memory-threshold",
                "state.storage.fs.memory-threshold",
                "execution.checkpointing.data-inline-threshold",
            )
        },
    )
    """Checkpoint files up to this size are stored in the checkpoint's metadata."""

    retained_checkpoints: int = field(
        default=2,
        metadata={
            "flink": ("state.checkpoints.num-retained", "execution.checkpointing.num-retained")
        },
    )
    """Number of newest checkpoints to keep."""

    incremental: bool = field(
        default=True,
        metadata={"flink": ("state.backend.incremental", "execution.checkpointing.incremental")},
    )
    """Whether a RocksDB checkpoint writes only the files that are new since the last checkpoint."""

    rocksdb_directories: str = field(
        default="", metadata={"flink": ("state.backend.rocksdb.localdir",)}
    )
    """Comma-separated folders on each executor for live RocksDB files; empty: `directory`."""

    rocksdb_predefined_options: str = field(
        default="DEFAULT", metadata={"flink": ("state.backend.rocksdb.predefined-options",)}
    )
    """A profile of `PredefinedOptions`."""

    rocksdb_options_factory: str = field(
        default="", metadata={"flink": ("state.backend.rocksdb.options-factory",)}
    )
    """`module.Class` of an options factory; see `RocksDBStateBackend.set_options`."""

    transfer_threads: int = field(
        default=4, metadata={"flink": ("state.backend.rocksdb.checkpoint.transfer.thread.num",)}
    )
    """Files that one state server reads or writes concurrently."""

    checkpoint_interval_ms: int = field(
        default=0, metadata={"flink": ("execution.checkpointing.interval",)}
    )
    """Same as the interval of `enable_checkpointing`; 0: checkpointing is not enabled."""

    checkpointing_mode: str = field(
        default="EXACTLY_ONCE", metadata={"flink": ("execution.checkpointing.mode",)}
    )
    """A name of `CheckpointingMode`."""

    checkpoint_timeout_ms: int = field(
        default=600_000, metadata={"flink": ("execution.checkpointing.timeout",)}
    )
    """Time after which a running checkpoint fails."""

    min_pause_ms: int = field(default=0, metadata={"flink": ("execution.checkpointing.min-pause",)})
    """Minimum time between the end of a checkpoint and the start of the next."""

    max_concurrent_checkpoints: int = field(
        default=1, metadata={"flink": ("execution.checkpointing.max-concurrent-checkpoints",)}
    )
    """Accepted for compatibility with Flink; there is never more than one."""

    tolerable_failed_checkpoints: int = field(
        default=-1, metadata={"flink": ("execution.checkpointing.tolerable-failed-checkpoints",)}
    )
    """Consecutive checkpoints that may fail; -1: 0 with `enable_checkpointing`, else unlimited."""

    externalized_retention: str = field(
        default="",
        metadata={"flink": ("execution.checkpointing.externalized-checkpoint-retention",)},
    )
    """A name of `ExternalizedCheckpointCleanup`; empty: retained."""

    prefer_checkpoint_for_recovery: bool = field(
        default=False,
        metadata={"flink": ("execution.checkpointing.prefer-checkpoint-for-recovery",)},
    )
    """Same as `CheckpointConfig.set_prefer_checkpoint_for_recovery`."""

    savepoint_path: str = field(
        default="",
        metadata={"flink": ("execution.savepoint.path", "execution.state-recovery.path")},
    )
    """URI of the default savepoint to start jobs from; empty: none."""

    savepoint_ignore_unclaimed_state: bool = field(
        default=False,
        metadata={
            "flink": (
                "execution.savepoint.ignore-unclaimed-state",
                "execution.state-recovery.ignore-unclaimed-state",
            )
        },
    )
    """True: a savepoint may contain state of operators that the job does not have."""

    restart_strategy: str = field(
        default="", metadata={"flink": ("restart-strategy", "restart-strategy.type")}
    )
    """`none`, `fixed-delay` or `failure-rate`; empty: see `RestartStrategies`."""

    restart_attempts: int = field(
        default=1, metadata={"flink": ("restart-strategy.fixed-delay.attempts",)}
    )
    """Maximum number of restarts of `fixed-delay`."""

    restart_delay_ms: int = field(
        default=1_000, metadata={"flink": ("restart-strategy.fixed-delay.delay",)}
    )
    """Time before a restart of `fixed-delay`."""

    restart_max_failures: int = field(
        default=1, metadata={"flink": ("restart-strategy.failure-rate.max-failures-per-interval",)}
    )
    """Maximum failures per interval of `failure-rate`; one more ends the job."""

    restart_failure_interval_ms: int = field(
        default=60_000, metadata={"flink": ("restart-strategy.failure-rate.failure-rate-interval",)}
    )
    """Interval in which `failure-rate` counts failures."""

    restart_failure_delay_ms: int = field(
        default=1_000, metadata={"flink": ("restart-strategy.failure-rate.delay",)}
    )
    """Time before a restart of `failure-rate`."""

    def __post_init__(self) -> None:
        if self.backend not in BACKEND_NAMES and "." not in self.backend:
            raise InvalidRequestError(
                f"state.backend {self.backend!r} is unknown: use one of "
                f"{', '.join(BACKEND_NAMES)}, or a factory as 'module.Class'"
            )
        if self.checkpoint_storage not in ("", *STORAGE_NAMES):
            raise InvalidRequestError(
                f"state.checkpoint-storage {self.checkpoint_storage!r} is unknown: use one of "
                f"{', '.join(STORAGE_NAMES)}"
            )
        if self.changelog not in CHANGELOG_CHOICES:
            raise InvalidRequestError(
                "spark.queryable_state.changelog must be one of "
                f"{', '.join(CHANGELOG_CHOICES)}, not {self.changelog!r}"
            )
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise InvalidRequestError(
                    f"spark.queryable_state.{name} must be at least {least}, "
                    f"not {getattr(self, name)}"
                )


LEAST: Final[Mapping[str, int]] = {
    "memory_threshold_bytes": 0,
    "retained_checkpoints": 1,
    "transfer_threads": 1,
    "checkpoint_interval_ms": 0,
    "checkpoint_timeout_ms": 10,
    "min_pause_ms": 0,
    "max_concurrent_checkpoints": 1,
    "tolerable_failed_checkpoints": -1,
}
"""Smallest values that are accepted, by field."""


def flink_names(settings: Iterable[dataclasses.Field[Any]]) -> dict[str, str]:
    """Field names by each of Flink's keys of the field."""
    return {key: field.name for field in settings for key in field.metadata.get("flink", ())}
