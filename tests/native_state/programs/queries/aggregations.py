"""Aggregations: by one string key, and by key and window with a watermark."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.native_state.programs.written_query import WrittenQuery

READINGS = "key STRING, value BIGINT, at TIMESTAMP"


def at(seconds: int) -> str:
    """A time of the first of January 2026, as JSON input has it."""
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def by_key(read: Callable[[str], DataFrame]) -> DataFrame:
    """Counts, sums and the largest name by key."""
    return (
        read("readings")
        .groupBy("key")
        .agg(F.count("*").alias("n"), F.sum("value").alias("total"), F.avg("value").alias("mean"))
    )


def by_window(read: Callable[[str], DataFrame]) -> DataFrame:
    """Counts and sums by key and one-minute window, late by at most a minute."""
    return (
        read("readings")
        .withWatermark("at", "1 minute")
        .groupBy("key", F.window("at", "1 minute"))
        .agg(F.count("*").alias("n"), F.sum("value").alias("total"), F.max("key").alias("name"))
    )


def without_key(read: Callable[[str], DataFrame]) -> DataFrame:
    """One row for the whole stream."""
    return read("readings").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


def feed_keys(query: WrittenQuery) -> None:
    """Four batches of 200 keys, of which each later one changes a part; a restart between."""
    query.feed([{"key": f"key-{n}", "value": n} for n in range(200)])
    query.feed([{"key": f"key-{n}", "value": -n} for n in range(0, 200, 3)])
    query.stop()
    query.feed(
        [{"key": key, "value": 7} for key in ("", "ключ", "a-key-longer-than-sixteen-bytes", None)]
    )
    query.feed([{"key": f"key-{n}", "value": 2**40 + n} for n in range(150, 250)])
    query.stop()


def feed_windows(query: WrittenQuery) -> None:
    """Nine batches a minute apart, whose watermark evicts the windows of the first ones."""
    for minute in range(9):
        query.feed(
            [
                {"key": f"key-{n % 40}", "value": n, "at": at(60 * minute + n % 90)}
                for n in range(120)
            ]
        )
        if minute == 4:
            query.stop()
    query.stop()
