"""The Spark session of a variant, its source and its sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from benchmarks.streaming.dataset import FILES_PER_BATCH, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

MASTER = "local[2,4]"
PARTITIONS = 2
ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"


def start_session(folder: Path, extra: Mapping[str, str]) -> SparkSession:
    """Starts a session; Spark's own state store is RocksDB with changelog checkpoints."""
    builder = (
        SparkSession.builder.master(MASTER)
        .appName("benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config(f"{ROCKSDB}.changelogCheckpointing.enabled", "true")
    )
    for name, value in extra.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def source(spark: SparkSession, folder: Path, schema: str = SCHEMA) -> DataFrame:
    """The files as a stream, one batch of files per trigger."""
    return (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .parquet(str(folder))
    )


def source_of_part(spark: SparkSession, folder: Path, part: int) -> DataFrame:
    """The files with this number in their batch as a stream, one file per trigger."""
    return (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .option("pathGlobFilter", f"*-{part}.parquet")
        .parquet(str(folder))
    )


def start_noop(frame: DataFrame, checkpoint: Path, mode: str = "update") -> StreamingQuery:
    """Starts a query that drops its output rows."""
    return (
        frame.writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def batches_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """Rows and milliseconds of each batch that had rows, in order."""
    batches: dict[int, dict[str, Any]] = {}
    for progress in query.recentProgress:
        if progress.numInputRows:
            batches[progress.batchId] = {
                "rows": progress.numInputRows,
                "ms": progress.durationMs["triggerExecution"],
                "add_batch_ms": progress.durationMs.get("addBatch", 0),
            }
    return [batches[number] for number in sorted(batches)]
