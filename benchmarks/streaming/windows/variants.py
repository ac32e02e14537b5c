"""Count, sum and maximum by key and window, by Spark's operators and by ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from benchmarks.streaming.session import source, start_noop
from benchmarks.streaming.windows.dataset import (
    DELAY_MS,
    SCHEMA,
    SLIDE_MS,
    SLIDES,
    live_from_ms,
)
from queryable_state.client import blocking
from queryable_state.streaming import Time, count_rows, max_of, sum_of
from queryable_state.streaming.windows.sliding_windows import SlidingEventTimeWindows
from queryable_state.streaming.windows.tumbling_windows import TumblingEventTimeWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.streaming import DataStream, JobClient, OperatorStream

QUERYABLE_NAME: Final = "windows"


def native(spark: SparkSession, data: Path, checkpoint: Path, slides: int) -> StreamingQuery:
    """`groupBy(key, window).agg()` in append mode: each window is emitted at its end."""
    size, slide = f"{slides * SLIDE_MS} milliseconds", f"{SLIDE_MS} milliseconds"
    totals = (
        rows_of(spark, data)
        .groupBy("key", F.window("at", size, slide))
        .agg(
            F.count("*").alias("count"),
            F.sum("value").alias("total"),
            F.max("value").alias("highest"),
        )
    )
    return start_noop(totals, checkpoint, "append")


NATIVE: Final[dict[str, Callable[[SparkSession, Path, Path], StreamingQuery]]] = {
    "native-tumbling": lambda spark, data, checkpoint: native(spark, data, checkpoint, 1),
    "native-sliding": lambda spark, data, checkpoint: native(spark, data, checkpoint, SLIDES),
}


def native_state(state: DataFrame, batches: int) -> dict[str, list[int]]:
    """Count, sum and maximum over the live windows of each key, in Spark's state."""
    names = state.select("value.*").columns
    count, total, highest = (F.col(f"value.{name}") for name in names)
    from_s = live_from_ms(batches) / 1000
    rows = (
        state.where(F.col("key.window.start") >= F.lit(from_s).cast("timestamp"))
        .groupBy(F.col("key.key").alias("key"))
        .agg(F.sum(count), F.sum(total), F.max(highest))
        .collect()
    )
    return {row.key: list(row[1:]) for row in rows}


def own(rows: DataStream, slides: int) -> OperatorStream:
    """The vectorised aggregation of windows, with queryable state."""
    slide = Time.milliseconds(SLIDE_MS)
    assigner: Any = TumblingEventTimeWindows.of(slide)
    if slides > 1:
        assigner = SlidingEventTimeWindows.of(Time.milliseconds(slides * SLIDE_MS), slide)
    windowed = rows.key_by("key").window(assigner)
    return windowed.aggregate_columns(
        queryable_name=QUERYABLE_NAME,
        count=count_rows(),
        total=sum_of("value"),
        highest=max_of("value"),
    )


OWN: Final[dict[str, Callable[[DataStream], OperatorStream]]] = {
    "tumbling": lambda rows: own(rows, 1),
    "sliding": lambda rows: own(rows, SLIDES),
}


def own_state(job: JobClient, keys: Sequence[str], batches: int) -> dict[str, list[int]]:
    """Count, sum and maximum over the live windows of the keys, read by the blocking client."""
    host, port = job.proxy_address().rsplit(":", 1)
    found = {}
    with blocking.QueryableStateClient(host, int(port)) as client:
        for key in keys:
            windows = client.get_windows(
                job.job_id, QUERYABLE_NAME, key, start=live_from_ms(batches)
            )
            values = [state.get() for state in windows.values()]
            counts, totals, maxima = zip(*values, strict=True)
            found[key] = [sum(counts), sum(totals), max(maxima)]
    return found


def rows_of(spark: SparkSession, data: Path) -> DataFrame:
    """The rows with a watermark."""
    return source(spark, data, SCHEMA).withWatermark("at", f"{DELAY_MS} milliseconds")
