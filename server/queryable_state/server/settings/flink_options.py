"""Flink's keys beyond the settings: the execution options that an environment keeps, and the keys
without effect, with the reasons that docs/settings.md and the warnings give."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from queryable_state.server.config.sources import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_log = logging.getLogger("queryable_state.streaming")

Kind = Literal["bool", "int", "ms", "text", "list", "map"]

_SERIALIZERS: Final = (
    "values are stored in the format of their Types, without serializers of the JVM"
)
_CHAINS: Final = "Spark decides which steps share a stage"
_CANCELLATION: Final = "spark.task.reaper.* sets how Spark ends tasks"


@dataclass(frozen=True)
class ExecutionOption:
    """One option. Values of the kind `ms` are milliseconds, with a unit if given as text."""

    kind: Kind
    default: object
    no_effect: str = ""
    """Why the value has no effect; empty: it has one."""
    choices: tuple[str, ...] = ()
    """Accepted texts, in any case; empty: all."""
    spellings: tuple[str, ...] = ()
    """Other keys of the option, of earlier or later versions of Flink."""


OPTIONS: Final[Mapping[str, ExecutionOption]] = {
    "pipeline.name": ExecutionOption("text", ""),
    "pipeline.jars": ExecutionOption("list", ()),
    "pipeline.classpaths": ExecutionOption("list", ()),
    "pipeline.auto-generate-uids": ExecutionOption("bool", True),
    "execution.runtime-mode": ExecutionOption(
        "text", "STREAMING", choices=("STREAMING", "BATCH", "AUTOMATIC")
    ),
    "python.files": ExecutionOption("list", ()),
    "python.archives": ExecutionOption("list", ()),
    "python.requirements": ExecutionOption("text", ""),
    "python.executable": ExecutionOption("text", ""),
    "pipeline.operator-chaining": ExecutionOption(
        "bool", True, _CHAINS, spellings=("pipeline.operator-chaining.enabled",)
    ),
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism": ExecutionOption(
        "bool", True, _CHAINS
    ),
    "pipeline.time-characteristic": ExecutionOption(
        "text", "EventTime", choices=("ProcessingTime", "IngestionTime", "EventTime")
    ),
    "execution.buffer-timeout": ExecutionOption(
        "ms",
        100,
        "Spark sends rows in batches: the trigger of execute sets how often",
        spellings=("execution.buffer-timeout.interval",),
    ),
    "execution.buffer-timeout.enabled": ExecutionOption(
        "bool", True, "Spark sends rows in batches"
    ),
    "pipeline.object-reuse": ExecutionOption("bool", False, "each element is an object of its own"),
    "pipeline.auto-watermark-interval": ExecutionOption(
        "ms", 200, "Spark advances the watermark after each batch"
    ),
    "pipeline.closure-cleaner-level": ExecutionOption(
        "text", "RECURSIVE", "cloudpickle serializes the functions"
    ),
    "pipeline.force-avro": ExecutionOption("bool", False, _SERIALIZERS),
    "pipeline.force-kryo": ExecutionOption(
        "bool", False, _SERIALIZERS, spellings=("pipeline.force-kryo-avro",)
    ),
    "pipeline.generic-types": ExecutionOption("bool", True, _SERIALIZERS),
    "pipeline.auto-type-registration": ExecutionOption("bool", True, _SERIALIZERS),
    "pipeline.default-kryo-serializers": ExecutionOption("map", (), _SERIALIZERS),
    "pipeline.registered-kryo-types": ExecutionOption("list", (), _SERIALIZERS),
    "pipeline.registered-pojo-types": ExecutionOption("list", (), _SERIALIZERS),
    "pipeline.global-job-parameters": ExecutionOption(
        "map", (), "a function is pickled with the values that it uses: refer to them in its body"
    ),
    "pipeline.cached-files": ExecutionOption(
        "list", (), "call register_cached_file, or set spark.files"
    ),
    "execution.checkpointing.snapshot-compression": ExecutionOption(
        "bool",
        False,
        "RocksDB compresses its files, and other snapshots are not compressed",
        spellings=("execution.checkpointing.snapshot-compression.enabled",),
    ),
    "task.cancellation.interval": ExecutionOption("ms", 30000, _CANCELLATION),
    "task.cancellation.timeout": ExecutionOption("ms", 180000, _CANCELLATION),
    "metrics.latency.interval": ExecutionOption(
        "ms", 0, "Spark reports the duration of each batch"
    ),
}

METHODS: Final[Mapping[str, ExecutionOption]] = {
    "register_type_with_kryo_serializer": ExecutionOption("map", (), _SERIALIZERS),
    "enable_sysout_logging": ExecutionOption(
        "bool", True, "Spark's logging configuration sets what is printed"
    ),
    "set_execution_mode": ExecutionOption(
        "text",
        "PIPELINED",
        "Spark exchanges rows between stages by shuffle",
        choices=("PIPELINED", "PIPELINED_FORCED", "BATCH", "BATCH_FORCED"),
    ),
    "set_default_input_dependency_constraint": ExecutionOption(
        "text",
        "ANY",
        "Spark schedules a stage when its inputs are complete",
        choices=("ANY", "ALL"),
    ),
    "set_default_local_parallelism": ExecutionOption(
        "int", 0, "set_parallelism or spark.sql.shuffle.partitions sets the subtasks"
    ),
}
"""Values that only a method sets, by its name."""

SPELLINGS: Final[Mapping[str, str]] = {
    **{key: key for key in OPTIONS},
    **{other: key for key, option in OPTIONS.items() for other in option.spellings},
}
"""Keys of options by each of their spellings."""

_REASONS: Final[Mapping[str, str]] = {
    "each server answers queries on one event loop": (
        "queryable-state.server.network-threads queryable-state.server.query-threads "
        "queryable-state.proxy.network-threads queryable-state.proxy.query-threads"
    ),
    "a client runs on the event loop of its caller": "queryable-state.client.network-threads",
    "checkpoints are taken between two batches, when no records are in flight": (
        "execution.checkpointing.unaligned execution.checkpointing.unaligned. "
        "execution.checkpointing.aligned-checkpoint-timeout "
        "execution.checkpointing.alignment-timeout "
        "execution.checkpointing.recover-without-channel-state.checkpoint-id "
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled "
        "execution.checkpointing.checkpoints-after-tasks-finish "
        "execution.state-recovery.without-channel-state.checkpoint-id"
    ),
    "a backlog is processed in batches like other input": (
        "execution.checkpointing.interval-during-backlog"
    ),
    "each batch is durable through its changelog, not through a local copy": (
        "execution.checkpointing.approximate-local-recovery "
        "execution.checkpointing.local-recovery execution.checkpointing.local-backup. "
        "execution.state-recovery.from-local state.backend.local-recovery"
    ),
    "files of checkpoints are not merged": "execution.checkpointing.file-merging.",
    "checkpoint files are written whole": (
        "execution.checkpointing.write-buffer-size state.backend.fs.write-buffer-size "
        "state.storage.fs.write-buffer-size"
    ),
    "retention deletes files in the background": (
        "execution.checkpointing.cleaner.parallel-mode state.checkpoint.cleaner.parallel-mode"
    ),
    "each job has a folder of its name": (
        "execution.checkpointing.create-subdir state.checkpoints.create-subdir"
    ),
    "a job never owns or deletes the savepoint it starts from": (
        "execution.savepoint-restore-mode execution.state-recovery.claim-mode"
    ),
    "the program runs in Spark's driver, attached to its jobs": "execution.attached",
    "jobs end with Spark's driver": "execution.shutdown-on-attached-exit",
    "spark.master says where the program runs": "execution.target",
    "add a StreamingQueryListener to the Spark session": "execution.job-listeners",
    "key_by(..., order_by=...) sorts the rows of a key": "execution.sorted-inputs.",
    "Spark runs the processes of the job: use Spark's configuration": (
        "execution.batch. execution.batch-shuffle-mode taskmanager. jobmanager. cluster. "
        "high-availability akka. pekko. blob. rest. web. yarn. kubernetes. security. env. "
        "historyserver. classloader."
    ),
    "bounded input uses the state backend of the job": "execution.batch-state-backend.enabled",
    "the strategies are none, fixed-delay and failure-rate: see RestartStrategies": (
        "restart-strategy.exponential-delay."
    ),
    "snapshots are always asynchronous": "state.backend.async",
    "the latency of single state accesses is not measured": "state.backend.latency-track.",
    "each batch writes a changelog, with every state backend": (
        "state.backend.changelog. state.changelog."
    ),
    (
        "options of RocksDB are set by state.backend.rocksdb.predefined-options, or by an "
        "options factory (state.backend.rocksdb.options-factory)"
    ): "state.backend.rocksdb.",
    "Spark's pages show queries, not Flink's job graph": "pipeline.vertex-",
    "the watermark is that of the streaming DataFrame": "pipeline.watermark-alignment.",
    "set_parallelism sets the subtasks of an operator": (
        "pipeline.jobvertex-parallelism-overrides"
    ),
    "values are stored in the format of their Types": "pipeline.serialization-config",
    "there are no metric reporters: use a StreamingQueryListener of Spark": "metrics.",
    "there is no Table API: use Spark SQL": "table. sql-",
    "Spark runs the Python workers: use spark.pyspark.* and spark.python.*": "python.",
    "storage_options sets the file systems": "fs.",
}

WITHOUT_EFFECT: Final = {key: reason for reason, keys in _REASONS.items() for key in keys.split()}
"""Reasons by key; a key that ends with a separator stands for all keys that begin with it."""

_MISSPELT = 0.93
"""Similarity from which on a key counts as a misspelt one."""

NAMESPACES: Final = (
    "queryable-state.",
    "state.",
    "execution.",
    "restart-strategy",
    "parallelism.",
    "pipeline.",
)
"""Beginnings of the keys that count in Spark's configuration without a prefix."""


def reason_without_effect(key: str, known: Iterable[str]) -> str | None:
    """Why a key of Flink has no effect; None if it is unknown, or a misspelt one of `known`."""
    found = WITHOUT_EFFECT.get(key)
    if found is not None:
        return found
    if nearest(key, known, similarity=_MISSPELT):
        return None
    for prefix, reason in WITHOUT_EFFECT.items():
        if prefix.endswith((".", "-")) and key.startswith(prefix):
            return reason
    return None


def warn_without_effect(name: str, reason: str, warned: set[str]) -> None:
    """Logs once per `warned` that a setting has no effect, and why."""
    if name not in warned:
        warned.add(name)
        _log.warning("%s has no effect: %s", name, reason)
