"""The benchmark's join of two streams: ours and Spark's have the same output rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.streaming import own_variants, spark_variants
from benchmarks.streaming.dataset import LimitsDataset
from benchmarks.streaming.session import source_of_part

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from queryable_state.streaming import StreamExecutionEnvironment

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Collected:
    """Counts of the rows that a sink receives."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[Any, ...]] = Counter()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.rows.update(tuple(row) for row in batch.collect())


@pytest.mark.slow
def test_connect_and_transform_with_state_join_the_same_rows(
    spark: SparkSession, env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    dataset = LimitsDataset(tmp_path / "data", batches=3, rows_per_batch=300, keys=50)
    dataset.write()

    own = Collected()
    parts = [source_of_part(spark, dataset.folder, part) for part in range(2)]
    limits, readings = (env.from_dataframe(part.select("key", "value")) for part in parts)
    own_variants.connect(limits, readings).uid("connect").add_sink(own)
    job = env.execute_async("connect", checkpoint_location=str(tmp_path / "own"))
    job.process_all_available()
    job.cancel()

    theirs = Collected()
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKSDB)
    try:
        writer = spark_variants.joined(spark, dataset.folder).writeStream.foreachBatch(theirs)
        query = (
            writer.outputMode("update")
            .option("checkpointLocation", str(tmp_path / "spark"))
            .start()
        )
        query.processAllAvailable()
        query.stop()
    finally:
        spark.conf.set(PROVIDER, str(before))

    joined = sum(figures[1] for figures in dataset.final_rows(3, 1).values())
    assert own.rows == theirs.rows
    assert own.rows.total() == joined > 0
