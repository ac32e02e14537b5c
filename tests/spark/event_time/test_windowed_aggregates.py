"""Vectorised windows equal Spark's own windowed aggregation on random elements."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from queryable_state.streaming import (
    SlidingEventTimeWindows,
    Time,
    TumblingEventTimeWindows,
    avg_of,
    count_rows,
    max_of,
    min_of,
    sum_of,
)
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed
    from tests.spark.feed import Feed

    from queryable_state.streaming import StreamExecutionEnvironment

SCHEMA = "k STRING, at TIMESTAMP, v LONG"
START_MS = 1_767_225_600_000
SIZE_MS, SLIDE_MS = 10_000, 4_000
DELAY_MS = 20_500
BATCHES = 6


def fill(source: Feed, seed: int) -> None:
    """Batches of elements that are out of order by less than the delay, then a last element."""
    random_ = random.Random(seed)
    for batch in range(BATCHES):
        source.add(
            *(
                {
                    "k": random_.choice("abcé"),
                    "at": shown(START_MS + batch * 7_000 - random_.randrange(20_000)),
                    "v": random_.choice([None, *range(-9, 10)]),
                }
                for _ in range(30)
            )
        )
    source.add({"k": "last", "at": shown(START_MS + 10_000_000), "v": 0})


def shown(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def by_spark(spark: SparkSession, frame: DataFrame, slide_ms: int) -> list[Any]:
    """The windows that Spark emits in append mode."""
    window = F.window("at", f"{SIZE_MS} milliseconds", f"{slide_ms} milliseconds")
    rows = (
        frame.groupBy("k", window)
        .agg(F.count("*"), F.sum("v"), F.min("v"), F.max("v"), F.avg("v"))
        .select(
            "k", "window.start", "window.end", "count(1)", "sum(v)", "min(v)", "max(v)", "avg(v)"
        )
    )
    query = rows.writeStream.format("memory").queryName("by_spark").outputMode("append").start()
    try:
        query.processAllAvailable()
        return plain(spark.table("by_spark").collect())
    finally:
        query.stop()


def plain(rows: Iterable[Any]) -> list[Any]:
    return sorted(map(tuple, rows), key=repr)


@pytest.mark.parametrize("slide_ms", [pytest.param(SIZE_MS, marks=pytest.mark.slow), SLIDE_MS])
def test_windows_are_those_of_sparks_own_aggregation(
    env: StreamExecutionEnvironment,
    spark: SparkSession,
    feed: MakeFeed,
    connect: Connect,
    slide_ms: int,
) -> None:
    source, emitted = feed(SCHEMA), []
    fill(source, slide_ms)
    frame = source.dataframe().withWatermark("at", f"{DELAY_MS} milliseconds")
    assigner: Any = TumblingEventTimeWindows.of(Time.milliseconds(SIZE_MS))
    if slide_ms < SIZE_MS:
        assigner = SlidingEventTimeWindows.of(
            Time.milliseconds(SIZE_MS), Time.milliseconds(slide_ms)
        )
    windowed = env.from_dataframe(frame).key_by("k").window(assigner)
    totals = windowed.aggregate_columns(
        queryable_name="live",
        n=count_rows(),
        total=sum_of("v"),
        least=min_of("v"),
        most=max_of("v"),
        mean=avg_of("v"),
    )
    totals.uid("windows").add_sink(lambda batch, batch_id: emitted.extend(batch.collect()))
    job = env.execute_async("windows")
    job.process_all_available()

    expected = by_spark(spark, frame, slide_ms)
    assert len(expected) > 20
    assert plain(emitted) == expected
    live = connect(job).get_windows(job.job_id, "live", "last")
    last = START_MS + 10_000_000
    starts = range(last - last % slide_ms, last - SIZE_MS, -slide_ms)
    assert {window: state.get() for window, state in live.items()} == {
        TimeWindow(start, start + SIZE_MS): (1, 0, 0, 0, 0, 1) for start in starts
    }
    assert dict(connect(job).get_windows(job.job_id, "live", "a")) == {}
