"""Timers of jobs in Spark: when they fire although no element arrives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.event_time.clock_functions import READING, SEEN, Alarm, OfReading, reading
from tests.spark.event_time.test_marker_batches import keyed, markers
from tests.waiting import until

from queryable_state.streaming import WatermarkStrategy
from queryable_state.wire.event_time import END_OF_TIME

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import MakeFeed

    from queryable_state.streaming import DataStream, JobClient, StreamExecutionEnvironment

LATENCY_S = 2.0
"""From the time of a timer to its output, with the batch, on a busy machine."""


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def timed(stream: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OfReading())
    return stream.assign_timestamps_and_watermarks(strategy)


def alarms(stream: DataStream, uid: str = "alarm", **options: Any) -> DataStream:
    made: DataStream = keyed(stream).process(Alarm(**options), SEEN).uid(uid)
    return made


def collected(stream: DataStream) -> list[Any]:
    rows: list[Any] = []
    stream.add_sink(lambda batch, _: rows.extend(tuple(row.value) for row in batch.collect()))
    return rows


@pytest.mark.slow
def test_timers_fire_at_the_end_of_bounded_input_at_every_depth(
    env: StreamExecutionEnvironment, location: Path
) -> None:
    first = alarms(timed(env.from_collection([("a", 1_000), ("b", 2_000)], READING)), "first")
    again = first.map(lambda each: (each[0], each[1]), READING)
    rows = collected(alarms(again, "second"))
    env.execute("bounded", checkpoint_location=str(location))
    # "a" fires at the first watermark, 1999; "b" and both alarms of the second at the end.
    assert {key: at for key, at, _ in rows} == {"a": 1_200, "b": 2_200}
    assert max(watermark for _, _, watermark in rows) == END_OF_TIME


def test_an_event_time_timer_fires_in_the_batch_after_its_watermark(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path
) -> None:
    source = feed("k STRING, t LONG")
    rows = collected(alarms(timed(env.from_dataframe(source.dataframe()).map(reading, READING))))
    job = env.execute_async("event time", checkpoint_location=str(location))
    source.add({"k": "a", "t": 1_000})
    source.add({"k": "b", "t": 5_000})
    until(lambda: rows)
    assert rows == [("a", 1_100, 4_999)]
    time.sleep(1.5)
    batches = len(markers(location))
    time.sleep(1.5)
    assert len(markers(location)) == batches, "the timer of b is not due: no batch"
    job.cancel()


def test_a_processing_time_timer_fires_without_input(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path
) -> None:
    source = feed("k STRING, t LONG")
    stream = env.from_dataframe(source.dataframe()).map(reading, READING)
    rows = collected(alarms(stream, wait_ms=3_000))
    job = env.execute_async("processing time", checkpoint_location=str(location))
    source.add({"k": "a", "t": 1_000})
    until(lambda: rows)
    assert 0 <= time.time() - rows[0][1] / 1_000 < LATENCY_S
    job.cancel()


@pytest.mark.slow
def test_a_timer_of_a_job_that_was_down_fires_at_its_start(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path
) -> None:
    source = feed("k STRING, t LONG")
    source.add({"k": "a", "t": 1_000})

    def started() -> tuple[JobClient, list[Any]]:
        stream = env.from_dataframe(source.dataframe()).map(reading, READING)
        rows = collected(alarms(stream, wait_ms=4_000))
        return env.execute_async("down", checkpoint_location=str(location)), rows

    first, none = started()
    until(lambda: markers(location))
    due_s = time.time() + 4
    first.cancel()
    assert none == []
    until(lambda: time.time() > due_s)
    again, rows = started()
    until(lambda: rows)
    again.cancel()
    assert [key for key, _, _ in rows] == ["a"]


def test_a_users_available_now_fires_what_its_watermark_has_reached(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path
) -> None:
    source = feed("k STRING, t LONG")
    source.add({"k": "a", "t": 1_000})
    source.add({"k": "b", "t": 5_000})
    rows = collected(alarms(timed(env.from_dataframe(source.dataframe()).map(reading, READING))))
    env.execute("settles", checkpoint_location=str(location), trigger={"availableNow": True})
    assert rows == [("a", 1_100, 4_999)]
    assert not any(marker.ended for marker in markers(location) if marker is not None)
