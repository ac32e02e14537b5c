"""The aggregations by Spark's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import Row

from benchmarks.streaming.dataset import FILES_PER_BATCH
from benchmarks.streaming.session import source, source_of_part, start_noop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

STATE = "count bigint, total bigint, highest bigint"
OUTPUT = f"key string, {STATE}"
LIMITS = "limit bigint, readings bigint, excess bigint"
JOINED = "key string, value bigint, limit bigint"
STATE_NAME = "totals"


class RowTotals(StatefulProcessor):
    """transformWithState on rows: one output row per key and batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.totals = handle.getValueState(STATE_NAME, STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        count, total, highest = self.totals.get() or (0, 0, None)
        for row in rows:
            value = row.value
            count += 1
            total += value
            if highest is None or value > highest:
                highest = value
        self.totals.update((count, total, highest))
        yield Row(key=key[0], count=count, total=total, highest=highest)

    def close(self) -> None:
        """Nothing to close."""


class PandasTotals(StatefulProcessor):
    """transformWithStateInPandas: one output row per key and batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.totals = handle.getValueState(STATE_NAME, STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        import pandas as pd

        count, total, highest = self.totals.get() or (0, 0, None)
        for frame in rows:
            values = frame["value"]
            count += len(values)
            total += int(values.sum())
            top = int(values.max())
            highest = top if highest is None else max(highest, top)
        self.totals.update((count, total, highest))
        yield pd.DataFrame(
            {"key": [key[0]], "count": [count], "total": [total], "highest": [highest]}
        )

    def close(self) -> None:
        """Nothing to close."""


class NewestLimit(StatefulProcessor):
    """Joins each reading with the newest limit of its key, in a union of both streams.

    The rows of a key come in no order of the streams, so that readings wait for the limit of their
    batch.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.limits = handle.getValueState(STATE_NAME, LIMITS)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        limit, readings, excess = self.limits.get() or (None, 0, 0)
        values = []
        for row in rows:
            if row.is_limit:
                limit = row.value
            else:
                values.append(row.value)
        if limit is not None:
            self.limits.update(
                (limit, readings + len(values), excess + sum(values) - limit * len(values))
            )
            for value in values:
                yield Row(key=key[0], value=value, limit=limit)

    def close(self) -> None:
        """Nothing to close."""


def native(spark: SparkSession, data: Path, checkpoint: Path) -> StreamingQuery:
    """`groupBy().agg()`: count, sum and maximum."""
    totals = (
        source(spark, data)
        .groupBy("key")
        .agg(
            F.count("*").alias("count"),
            F.sum("value").alias("total"),
            F.max("value").alias("highest"),
        )
    )
    return start_noop(totals, checkpoint)


def native_sums(spark: SparkSession, data: Path, checkpoint: Path) -> StreamingQuery:
    """`groupBy().agg()`: two sums, as our built-in aggregation."""
    totals = source(spark, data).groupBy("key").agg(F.sum("ones"), F.sum("value"))
    return start_noop(totals, checkpoint)


def transform_with_state(spark: SparkSession, data: Path, checkpoint: Path) -> StreamingQuery:
    """`transformWithState` on rows."""
    return start_noop(
        _grouped(spark, data).transformWithState(RowTotals(), OUTPUT, "Update", "None"), checkpoint
    )


def transform_with_state_in_pandas(
    spark: SparkSession, data: Path, checkpoint: Path
) -> StreamingQuery:
    """`transformWithStateInPandas`."""
    return start_noop(
        _grouped(spark, data).transformWithStateInPandas(PandasTotals(), OUTPUT, "Update", "None"),
        checkpoint,
    )


def native_union(spark: SparkSession, data: Path, checkpoint: Path) -> StreamingQuery:
    """`union().groupBy().agg()`: two sums, as our built-in aggregation."""
    first, second = _parts(spark, data)
    totals = first.union(second).groupBy("key").agg(F.sum("ones"), F.sum("value"))
    return start_noop(totals, checkpoint)


def joined(spark: SparkSession, data: Path) -> DataFrame:
    """Readings with the newest limit of their key, by `transformWithState` on a tagged union.

    Joins of streams in Spark match all rows of a time range and cannot keep the newest one alone.
    """
    limits, readings = (
        part.select("key", "value", F.lit(is_limit).alias("is_limit"))
        for part, is_limit in zip(_parts(spark, data), (True, False), strict=True)
    )
    grouped: Any = limits.union(readings).groupBy("key")
    frame: DataFrame = grouped.transformWithState(NewestLimit(), JOINED, "Update", "None")
    return frame


def connect(spark: SparkSession, data: Path, checkpoint: Path) -> StreamingQuery:
    """`transformWithState` on the rows of two streams."""
    return start_noop(joined(spark, data), checkpoint)


def state_of(spark: SparkSession, checkpoint: Path, *, named: bool) -> DataFrame:
    """The state of a stopped query by Spark's state reader: `key` and `value` structs."""
    reader = spark.read.format("statestore")
    if named:
        reader = reader.option("stateVarName", STATE_NAME)
    return reader.load(str(checkpoint))


def _grouped(spark: SparkSession, data: Path) -> Any:
    return source(spark, data).select("key", "value").groupBy("key")


def _parts(spark: SparkSession, data: Path) -> list[DataFrame]:
    return [source_of_part(spark, data, part) for part in range(FILES_PER_BATCH)]
