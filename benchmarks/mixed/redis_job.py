"""The same job without queryable state: it writes the updated rows to Redis.

Spark's native aggregation keeps the sums; `foreachBatch` sends each batch's updated rows to Redis
from the executors: one `MSET` per partition, one connection per Python worker.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from benchmarks.streaming.session import source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    import redis
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start(spark: SparkSession, data: Path, checkpoint: Path, port: int) -> StreamingQuery:
    """Empties Redis and starts the query.

    The value of a key in Redis is its count and total, separated by a space.
    """
    _connection(port).flushall()
    totals = (
        source(spark, data)
        .groupBy("key")
        .agg(F.sum("ones").alias("count"), F.sum("value").alias("total"))
        .select("key", F.concat_ws(" ", "count", "total").alias("value"))
    )
    send = functools.partial(_send, port)

    def write(updated: DataFrame, _batch_id: int) -> None:
        updated.mapInArrow(send, "sent long").write.format("noop").mode("append").save()

    return (
        totals.writeStream.foreachBatch(write)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def _send(port: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    connection = _connection(port)
    for batch in batches:
        if batch.num_rows:
            keys, values = (column.to_pylist() for column in batch.columns)
            connection.mset(dict(zip(keys, values, strict=True)))
    yield from ()


@functools.cache
def _connection(port: int) -> redis.Redis:
    import redis

    return redis.Redis(port=port)
