"""Flink's execution options that an environment keeps: their keys, types, defaults and effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["bool", "int", "ms", "text", "list", "map"]

_SERIALIZERS = "values are stored in the format of their Types, without serializers of the JVM"
_CHAINS = "Spark decides which steps share a stage"


@dataclass(frozen=True, kw_only=True)
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
    "pipeline.name": ExecutionOption(kind="text", default=""),
    "pipeline.jars": ExecutionOption(kind="list", default=()),
    "pipeline.classpaths": ExecutionOption(kind="list", default=()),
    "pipeline.auto-generate-uids": ExecutionOption(kind="bool", default=True),
    "execution.runtime-mode": ExecutionOption(
        kind="text", default="STREAMING", choices=("STREAMING", "BATCH", "AUTOMATIC")
    ),
    "python.files": ExecutionOption(kind="list", default=()),
    "python.archives": ExecutionOption(kind="list", default=()),
    "python.requirements": ExecutionOption(kind="text", default=""),
    "python.executable": ExecutionOption(kind="text", default=""),
    "pipeline.operator-chaining": ExecutionOption(
        kind="bool",
        default=True,
        no_effect=_CHAINS,
        spellings=("pipeline.operator-chaining.enabled",),
    ),
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism": ExecutionOption(
        kind="bool", default=True, no_effect=_CHAINS
    ),
    "pipeline.time-characteristic": ExecutionOption(
        kind="text",
        default="EventTime",
        choices=("ProcessingTime", "IngestionTime", "EventTime"),
    ),
    "execution.buffer-timeout": ExecutionOption(
        kind="ms",
        default=100,
        no_effect="Spark sends rows in batches: the trigger of execute sets how often",
        spellings=("execution.buffer-timeout.interval",),
    ),
    "execution.buffer-timeout.enabled": ExecutionOption(
        kind="bool", default=True, no_effect="Spark sends rows in batches"
    ),
    "pipeline.object-reuse": ExecutionOption(
        kind="bool", default=False, no_effect="each element is an object of its own"
    ),
    "pipeline.auto-watermark-interval": ExecutionOption(
        kind="ms", default=200, no_effect="Spark advances the watermark after each batch"
    ),
    "pipeline.closure-cleaner-level": ExecutionOption(
        kind="text", default="RECURSIVE", no_effect="cloudpickle serializes the functions"
    ),
    "pipeline.force-avro": ExecutionOption(kind="bool", default=False, no_effect=_SERIALIZERS),
    "pipeline.force-kryo": ExecutionOption(
        kind="bool",
        default=False,
        no_effect=_SERIALIZERS,
        spellings=("pipeline.force-kryo-avro",),
    ),
    "pipeline.generic-types": ExecutionOption(kind="bool", default=True, no_effect=_SERIALIZERS),
    "pipeline.auto-type-registration": ExecutionOption(
        kind="bool", default=True, no_effect=_SERIALIZERS
    ),
    "pipeline.default-kryo-serializers": ExecutionOption(
        kind="map", default=(), no_effect=_SERIALIZERS
    ),
    "pipeline.registered-kryo-types": ExecutionOption(
        kind="list", default=(), no_effect=_SERIALIZERS
    ),
    "pipeline.registered-pojo-types": ExecutionOption(
        kind="list", default=(), no_effect=_SERIALIZERS
    ),
    "pipeline.global-job-parameters": ExecutionOption(
        kind="map",
        default=(),
        no_effect="a function is pickled with the values that it uses: refer to them in its body",
    ),
    "pipeline.cached-files": ExecutionOption(
        kind="list", default=(), no_effect="call register_cached_file, or set spark.files"
    ),
    "execution.checkpointing.snapshot-compression": ExecutionOption(
        kind="bool",
        default=False,
        no_effect="RocksDB compresses its files, and other snapshots are not compressed",
        spellings=("execution.checkpointing.snapshot-compression.enabled",),
    ),
    "task.cancellation.interval": ExecutionOption(
        kind="ms", default=30_000, no_effect="spark.task.reaper.* sets how Spark ends tasks"
    ),
    "task.cancellation.timeout": ExecutionOption(
        kind="ms", default=180_000, no_effect="spark.task.reaper.* sets how Spark ends tasks"
    ),
    "metrics.latency.interval": ExecutionOption(
        kind="ms", default=0, no_effect="Spark reports the duration of each batch"
    ),
}

METHODS: Final[Mapping[str, ExecutionOption]] = {
    "register_type_with_kryo_serializer": ExecutionOption(
        kind="map", default=(), no_effect=_SERIALIZERS
    ),
    "enable_sysout_logging": ExecutionOption(
        kind="bool", default=True, no_effect="Spark's logging configuration sets what is printed"
    ),
    "set_execution_mode": ExecutionOption(
        kind="text",
        default="PIPELINED",
        choices=("PIPELINED", "PIPELINED_FORCED", "BATCH", "BATCH_FORCED"),
        no_effect="Spark exchanges rows between stages by shuffle",
    ),
    "set_default_input_dependency_constraint": ExecutionOption(
        kind="text",
        default="ANY",
        choices=("ANY", "ALL"),
        no_effect="Spark schedules a stage when its inputs are complete",
    ),
    "set_default_local_parallelism": ExecutionOption(
        kind="int",
        default=0,
        no_effect="set_parallelism or spark.sql.shuffle.partitions sets the subtasks",
    ),
}
"""Values that only a method sets, by its name."""

SPELLINGS: Final[Mapping[str, str]] = {
    **{key: key for key in OPTIONS},
    **{other: key for key, option in OPTIONS.items() for other in option.spellings},
}
"""Keys of options by each of their spellings."""
