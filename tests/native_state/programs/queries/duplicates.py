"""Deduplication: by key for ever, by key and event time, within the watermark, and limits."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from tests.native_state.programs.queries.aggregations import at
from tests.native_state.programs.written_query import WrittenQuery

EVENTS = "id STRING, user BIGINT, at TIMESTAMP"
Read = Callable[[str], DataFrame]


def by_id(read: Read) -> DataFrame:
    """The first event of each id and user, remembered for ever."""
    return read("events").dropDuplicates(["id", "user"])


def by_id_and_time(read: Read) -> DataFrame:
    """The first event of each id and time, forgotten when the watermark passes the time."""
    return read("events").withWatermark("at", "2 minutes").dropDuplicates(["id", "at"])


def within_watermark(read: Read) -> DataFrame:
    """The first event of each id, forgotten two minutes after it."""
    return read("events").withWatermark("at", "2 minutes").dropDuplicatesWithinWatermark(["id"])


def first_rows(read: Read) -> DataFrame:
    """The first 25 events of the stream."""
    return read("events").limit(25)


def feed_events(query: WrittenQuery) -> None:
    """Six batches, a minute apart, each with repeated ids; a restart between."""
    for minute in range(6):
        query.feed(
            [
                {
                    "id": None if n == 7 else f"id-{(n + 20 * minute) % 90}",
                    "user": n % 5,
                    "at": at(60 * minute + n % 50),
                }
                for n in range(60)
            ]
        )
        if minute == 2:
            query.stop()
    query.stop()
