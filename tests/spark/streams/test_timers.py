"""Timers in jobs on Spark: event time by the frame's watermark, processing time by the batch's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.spark.streams.timer_functions import (
    FIRED,
    SilentInEventTime,
    SilentInProcessingTime,
)
from tests.waiting import until

if TYPE_CHECKING:
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment
    from queryable_state.streaming.functions import KeyedProcessFunction

SCHEMA = "ts TIMESTAMP, key STRING"
START_MS = 1_767_225_600_000


def at(second: int, key: str) -> dict[str, Any]:
    return {"ts": f"2026-01-01T00:00:{second:02}Z", "key": key}


def test_event_time_timers_fire_when_the_watermark_has_passed_them(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    """A batch has the watermark of the rows before it; the last one comes without rows."""
    source, fired = feed(SCHEMA), []
    frame = source.dataframe().withWatermark("ts", "5 seconds")
    stream = env.from_dataframe(frame).key_by("key").process(SilentInEventTime(), FIRED)
    stream.uid("silent").add_sink(lambda batch, batch_id: fired.extend(batch.collect()))
    source.add(at(0, "a"), at(0, "b"), at(1, "c"))
    source.add(at(4, "a"))
    source.add(at(16, "d"))
    job = env.execute_async("silent in event time")
    client = connect(job)

    def alarms() -> list[int | None]:
        states = client.get_kv_states(job.job_id, "alarms", ["a", "b", "c", "d"])
        return [None if state is None else state.value() for state in states]

    job.process_all_available()
    # The watermark of 11 s passes the timers of b and c, but not that of a, at 14 s.
    until(lambda: alarms() == [START_MS + 14_000, None, None, START_MS + 26_000])
    watermark = START_MS + 11_000
    assert [tuple(row)[:5] for row in sorted(fired, key=lambda row: str(row.key))] == [
        ("b", "EVENT_TIME", START_MS + 10_000, 1, watermark),
        ("c", "EVENT_TIME", START_MS + 11_000, 1, watermark),
    ]


def test_processing_time_timers_fire_in_a_batch_at_or_after_their_time(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    source, fired = feed(SCHEMA), []
    stream = env.from_dataframe(source.dataframe()).key_by("key")
    function: KeyedProcessFunction = SilentInProcessingTime()
    stream.process(function, FIRED).uid("silent").add_sink(
        lambda batch, batch_id: fired.extend(batch.collect())
    )
    source.add(at(0, "a"), at(0, "b"))
    job = env.execute_async("silent in processing time")
    job.process_all_available()

    until(lambda: {row.key for row in fired} == {"a", "b"})
    assert sorted((row.key, row.domain, row.seen) for row in fired) == [
        ("a", "PROCESSING_TIME", 1),
        ("b", "PROCESSING_TIME", 1),
    ]
    assert all(row.now >= row.at for row in fired)
