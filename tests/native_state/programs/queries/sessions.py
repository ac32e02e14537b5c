"""Session windows: activity of users with gaps of half a minute."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.native_state.programs.queries.aggregations import at
from tests.native_state.programs.written_query import WrittenQuery

CLICKS = "user STRING, clicks INT, at TIMESTAMP"


def by_user(read: Callable[[str], DataFrame]) -> DataFrame:
    """Clicks by user and session."""
    return (
        read("clicks")
        .withWatermark("at", "1 minute")
        .groupBy("user", F.session_window("at", "30 seconds"))
        .agg(F.sum("clicks").alias("clicks"), F.count("*").alias("n"))
    )


def feed_clicks(query: WrittenQuery) -> None:
    """Six batches, whose sessions grow, merge and are evicted; a restart between."""
    for minute in range(6):
        query.feed(
            [
                {"user": f"user-{n % 17}", "clicks": n, "at": at(60 * minute + 23 * n % 120)}
                for n in range(50)
            ]
        )
        if minute == 2:
            query.stop()
    query.stop()
