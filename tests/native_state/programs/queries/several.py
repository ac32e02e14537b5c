"""Several stateful operators in one query."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.native_state.programs.queries.aggregations import at
from tests.native_state.programs.written_query import WrittenQuery

CALLS = "id BIGINT, caller STRING, seconds INT, at TIMESTAMP"
Read = Callable[[str], DataFrame]


def chained(read: Read) -> DataFrame:
    """Deduplication, then minutes by caller, then five minutes over all callers."""
    minutes = (
        read("calls")
        .withWatermark("at", "30 seconds")
        .dropDuplicatesWithinWatermark(["id"])
        .groupBy("caller", F.window("at", "1 minute"))
        .agg(F.sum("seconds").alias("seconds"))
    )
    return minutes.groupBy(F.window(F.window_time("window"), "5 minutes")).agg(
        F.count("*").alias("callers"), F.max("seconds").alias("longest")
    )


def feed_calls(query: WrittenQuery) -> None:
    """Eight batches, a minute apart; a restart between."""
    for minute in range(8):
        query.feed(
            [
                {
                    "id": 25 * minute + n % 33,
                    "caller": f"caller-{n % 11}",
                    "seconds": n,
                    "at": at(60 * minute + n % 60),
                }
                for n in range(40)
            ]
        )
        if minute == 3:
            query.stop()
    query.stop()
