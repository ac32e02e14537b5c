"""What can be set on the durable state of jobs; PyFlink's names of the settings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANGELOG_CHOICES: Final = ("auto", "on", "off")
BACKEND_NAMES: Final = ("heap", "rocksdb", "hashmap", "filesystem", "jobmanager")


@dataclass(frozen=True, kw_only=True)
class DurabilitySettings:
    """Defaults of all jobs of an environment; what a job sets itself counts before them."""

    backend: str = field(default="rocksdb", metadata={"flink": "state.backend"})
    """Where state lives while a job runs: `rocksdb`, `heap` (also `hashmap`, `filesystem`),
    `jobmanager` for a MemoryStateBackend, or `module.Class` of a factory of state backends."""

    checkpoint_directory: str = field(default="", metadata={"flink": "state.checkpoints.dir"})
    """Path or URI, reachable from the driver and all executors, under which each job has a folder
    by its name. Empty: state is kept beside the job's checkpoint location, where it has one."""

    savepoint_directory: str = field(default="", metadata={"flink": "state.savepoints.dir"})
    """Path or URI for savepoints that name none."""

    changelog: str = "auto"
    """Whether state survives its server: `auto` where there is a lasting place for it, `on` (a job
    without one is refused), `off`."""

    allow_missing_state: bool = False
    """Let a query past its first batches go on, without its state, where the state is missing."""

    fsync: bool = False
    """Force files on local disks to disk, so that they survive a power cut."""

    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of the file system of the directories (for S3: `endpoint_url`, `key`, `secret` ...);
    a JSON object where it is a text."""

    memory_threshold_bytes: int = field(
        default=20480, metadata={"flink": "state.backend.fs.memory-threshold"}
    )
    """Files of a checkpoint up to this size are kept within its metadata."""

    retained_checkpoints: int = field(
        default=2, metadata={"flink": "state.checkpoints.num-retained"}
    )
    """Newest checkpoints that are kept."""

    incremental: bool = field(default=True, metadata={"flink": "state.backend.incremental"})
    """Whether a checkpoint of RocksDB writes only what is new since the one before."""

    rocksdb_directories: str = field(
        default="", metadata={"flink": "state.backend.rocksdb.localdir"}
    )
    """Folders on each executor for live RocksDB files, with commas between; empty: `directory`."""

    rocksdb_predefined_options: str = field(
        default="DEFAULT", metadata={"flink": "state.backend.rocksdb.predefined-options"}
    )
    """A profile of `PredefinedOptions`."""

    rocksdb_options_factory: str = field(
        default="", metadata={"flink": "state.backend.rocksdb.options-factory"}
    )
    """`module.Class` of an options factory; see `RocksDBStateBackend.set_options`."""

    transfer_threads: int = field(
        default=4, metadata={"flink": "state.backend.rocksdb.checkpoint.transfer.thread.num"}
    )
    """Files read or written at once by one state server."""

    checkpoint_interval_ms: int = field(
        default=0, metadata={"flink": "execution.checkpointing.interval"}
    )
    """As `enable_checkpointing`; 0: not called."""

    checkpointing_mode: str = field(
        default="EXACTLY_ONCE", metadata={"flink": "execution.checkpointing.mode"}
    )
    """A name of `CheckpointingMode`."""

    checkpoint_timeout_ms: int = field(
        default=600_000, metadata={"flink": "execution.checkpointing.timeout"}
    )
    """After so long a checkpoint has failed."""

    min_pause_ms: int = field(default=0, metadata={"flink": "execution.checkpointing.min-pause"})
    """From one checkpoint's end to the next one's beginning, at least."""

    max_concurrent_checkpoints: int = field(
        default=1, metadata={"flink": "execution.checkpointing.max-concurrent-checkpoints"}
    )
    """There is never more than one."""

    tolerable_failed_checkpoints: int = field(
        default=-1, metadata={"flink": "execution.checkpointing.tolerable-failed-checkpoints"}
    )
    """Checkpoints in a row that may fail; -1: none with `enable_checkpointing`, else any number."""

    externalized_retention: str = field(
        default="",
        metadata={"flink": "execution.checkpointing.externalized-checkpoint-retention"},
    )
    """A name of `ExternalizedCheckpointCleanup`; empty: retained."""

    prefer_checkpoint_for_recovery: bool = field(
        default=False, metadata={"flink": "execution.checkpointing.prefer-checkpoint-for-recovery"}
    )
    """As `CheckpointConfig.set_prefer_checkpoint_for_recovery`."""

    savepoint_path: str = field(default="", metadata={"flink": "execution.savepoint.path"})
    """URI of the savepoint that jobs which name none start from; empty: none."""

    savepoint_ignore_unclaimed_state: bool = field(
        default=False, metadata={"flink": "execution.savepoint.ignore-unclaimed-state"}
    )
    """Let a savepoint have state of operators that the job has not."""

    restart_strategy: str = field(default="", metadata={"flink": "restart-strategy"})
    """`none`, `fixed-delay` or `failure-rate`; empty: see `RestartStrategies`."""

    restart_attempts: int = field(
        default=1, metadata={"flink": "restart-strategy.fixed-delay.attempts"}
    )
    """Restarts of `fixed-delay`."""

    restart_delay_ms: int = field(
        default=1_000, metadata={"flink": "restart-strategy.fixed-delay.delay"}
    )
    """Time before a restart of `fixed-delay`."""

    restart_max_failures: int = field(
        default=1, metadata={"flink": "restart-strategy.failure-rate.max-failures-per-interval"}
    )
    """Failures of `failure-rate` that are followed by a restart."""

    restart_failure_interval_ms: int = field(
        default=60_000, metadata={"flink": "restart-strategy.failure-rate.failure-rate-interval"}
    )
    """The time in which they are counted."""

    restart_failure_delay_ms: int = field(
        default=1_000, metadata={"flink": "restart-strategy.failure-rate.delay"}
    )
    """Time before a restart of `failure-rate`."""

    def __post_init__(self) -> None:
        if self.backend not in BACKEND_NAMES and "." not in self.backend:
            raise InvalidRequestError(
                f"state backend {self.backend!r} is not known: choose one of "
                f"{', '.join(BACKEND_NAMES)}, or name a factory as 'module.Class'"
            )
        if self.changelog not in CHANGELOG_CHOICES:
            raise InvalidRequestError(
                f"changelog is one of {', '.join(CHANGELOG_CHOICES)}, not {self.changelog!r}"
            )
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise InvalidRequestError(f"{name} is at least {least}, not {getattr(self, name)}")


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

FLINK_NAMES: Final[Mapping[str, str]] = {
    setting.metadata["flink"]: setting.name
    for setting in dataclasses.fields(DurabilitySettings)
    if "flink" in setting.metadata
}
"""Fields by PyFlink's names of them."""
