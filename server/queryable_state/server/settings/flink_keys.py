"""Flink configuration keys without effect in this library, and the check of keys by name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from queryable_state.server.config.names import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_log = logging.getLogger("queryable_state.streaming")

_EVENT_LOOP = "each server answers queries on one event loop"
_BETWEEN_BATCHES = "checkpoints are taken between two batches, when no records are in flight"
_SPARK_RUNS = "Spark runs the processes of the job: use Spark's configuration"
_ROCKSDB = (
    "options of RocksDB are set by state.backend.rocksdb.predefined-options, or by an options "
    "factory (state.backend.rocksdb.options-factory)"
)
_SAVEPOINT = "a job never owns or deletes the savepoint it starts from"
_LOCAL = "each batch is durable through its changelog, not through a local copy"

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "queryable-state.server.network-threads": _EVENT_LOOP,
    "queryable-state.server.query-threads": _EVENT_LOOP,
    "queryable-state.proxy.network-threads": _EVENT_LOOP,
    "queryable-state.proxy.query-threads": _EVENT_LOOP,
    "queryable-state.client.network-threads": "a client runs on the event loop of its caller",
    "execution.checkpointing.unaligned": _BETWEEN_BATCHES,
    "execution.checkpointing.unaligned.": _BETWEEN_BATCHES,
    "execution.checkpointing.aligned-checkpoint-timeout": _BETWEEN_BATCHES,
    "execution.checkpointing.alignment-timeout": _BETWEEN_BATCHES,
    "execution.checkpointing.recover-without-channel-state.checkpoint-id": _BETWEEN_BATCHES,
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": _BETWEEN_BATCHES,
    "execution.checkpointing.checkpoints-after-tasks-finish": _BETWEEN_BATCHES,
    "execution.checkpointing.interval-during-backlog": (
        "a backlog is processed in batches like other input"
    ),
    "execution.checkpointing.approximate-local-recovery": _LOCAL,
    "execution.checkpointing.local-recovery": _LOCAL,
    "execution.checkpointing.local-backup.": _LOCAL,
    "execution.checkpointing.file-merging.": "files of checkpoints are not merged",
    "execution.checkpointing.write-buffer-size": "checkpoint files are written whole",
    "execution.checkpointing.cleaner.parallel-mode": "retention deletes files in the background",
    "execution.checkpointing.create-subdir": "each job has a folder of its name",
    "execution.savepoint-restore-mode": _SAVEPOINT,
    "execution.state-recovery.claim-mode": _SAVEPOINT,
    "execution.state-recovery.from-local": _LOCAL,
    "execution.state-recovery.without-channel-state.checkpoint-id": _BETWEEN_BATCHES,
    "execution.attached": "the program runs in Spark's driver, attached to its jobs",
    "execution.shutdown-on-attached-exit": "jobs end with Spark's driver",
    "execution.target": "spark.master says where the program runs",
    "execution.job-listeners": "add a StreamingQueryListener to the Spark session",
    "execution.sorted-inputs.": "key_by(..., order_by=...) sorts the rows of a key",
    "execution.batch.": _SPARK_RUNS,
    "execution.batch-shuffle-mode": _SPARK_RUNS,
    "execution.batch-state-backend.enabled": "bounded input uses the state backend of the job",
    "restart-strategy.exponential-delay.": (
        "the strategies are none, fixed-delay and failure-rate: see RestartStrategies"
    ),
    "state.backend.async": "snapshots are always asynchronous",
    "state.backend.latency-track.": "the latency of single state accesses is not measured",
    "state.backend.local-recovery": _LOCAL,
    "state.backend.changelog.": "each batch writes a changelog, with every state backend",
    "state.changelog.": "each batch writes a changelog, with every state backend",
    "state.backend.rocksdb.": _ROCKSDB,
    "state.backend.fs.write-buffer-size": "checkpoint files are written whole",
    "state.storage.fs.write-buffer-size": "checkpoint files are written whole",
    "state.checkpoints.create-subdir": "each job has a folder of its name",
    "state.checkpoint.cleaner.parallel-mode": "retention deletes files in the background",
    "pipeline.vertex-": "Spark's pages show queries, not Flink's job graph",
    "pipeline.watermark-alignment.": "the watermark is that of the streaming DataFrame",
    "pipeline.jobvertex-parallelism-overrides": "set_parallelism sets the subtasks of an operator",
    "pipeline.serialization-config": "values are stored in the format of their Types",
    "taskmanager.": _SPARK_RUNS,
    "jobmanager.": _SPARK_RUNS,
    "cluster.": _SPARK_RUNS,
    "high-availability": _SPARK_RUNS,
    "akka.": _SPARK_RUNS,
    "pekko.": _SPARK_RUNS,
    "blob.": _SPARK_RUNS,
    "rest.": _SPARK_RUNS,
    "web.": _SPARK_RUNS,
    "yarn.": _SPARK_RUNS,
    "kubernetes.": _SPARK_RUNS,
    "security.": _SPARK_RUNS,
    "env.": _SPARK_RUNS,
    "metrics.": "there are no metric reporters: use a StreamingQueryListener of Spark",
    "historyserver.": _SPARK_RUNS,
    "table.": "there is no Table API: use Spark SQL",
    "sql-": "there is no Table API: use Spark SQL",
    "python.": "Spark runs the Python workers: use spark.pyspark.* and spark.python.*",
    "classloader.": _SPARK_RUNS,
    "fs.": "storage_options sets the file systems",
}
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
