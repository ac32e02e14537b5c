"""Timers and windows where there is little input, or none, or not all of it has a time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.event_time.clock_functions import READING, SEEN, Alarm, OfReading, reading
from tests.spark.event_time.test_marker_batches import keyed, markers
from tests.spark.windows.window_functions import Counted
from tests.waiting import until

from queryable_state.streaming import (
    Duration,
    Time,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import DataStream, StreamExecutionEnvironment

RESULT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


def timed(stream: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OfReading())
    return stream.assign_timestamps_and_watermarks(strategy)


def alarms(stream: DataStream, uid: str = "alarm", wait_ms: int = 0) -> DataStream:
    made: DataStream = keyed(stream).process(Alarm(wait_ms), SEEN).uid(uid)
    return made


def counted(stream: DataStream) -> DataStream:
    windowed = keyed(stream).window(TumblingEventTimeWindows.of(Time.milliseconds(1_000)))
    made: DataStream = windowed.process(Counted(), RESULT).uid("windows")
    return made


def collected(stream: DataStream) -> list[Any]:
    rows: list[Any] = []
    stream.add_sink(lambda batch, _: rows.extend(tuple(row.value) for row in batch.collect()))
    return rows


def readings(env: StreamExecutionEnvironment, source: Any) -> DataStream:
    return env.from_dataframe(source.dataframe()).map(reading, READING)


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def test_a_bounded_job_without_any_element_ends(
    env: StreamExecutionEnvironment, location: Path
) -> None:
    stream = timed(env.from_collection([], READING))
    fired, windows = collected(alarms(stream)), collected(counted(stream))
    env.execute("empty", checkpoint_location=str(location))
    assert fired == windows == []


def test_a_job_without_any_row_has_one_batch_and_takes_rows_later(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path
) -> None:
    source = feed("k STRING, t LONG")
    rows = collected(alarms(timed(readings(env, source))))
    job = env.execute_async("no rows", checkpoint_location=str(location))
    until(lambda: len(markers(location)) == 1)
    time.sleep(1)
    assert len(markers(location)) == 1
    source.add({"k": "a", "t": 1_000}, {"k": "b", "t": 1_200})
    until(lambda: rows == [("a", 1_100, 1_199)])
    job.cancel()


@pytest.mark.slow
def test_a_users_query_over_windows_runs_with_available_now_again_and_again(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path, spark: SparkSession
) -> None:
    """Append mode, to files; each run fires what the rows of all runs have closed."""
    source = feed("k STRING, t LONG")
    output = location.with_name("output")
    found = []
    for at in (100, 1_500, 2_500, 9_000):
        source.add({"k": "a", "t": at})
        frame = counted(timed(readings(env, source))).to_dataframe()
        frame = frame.selectExpr("value.*") if frame.columns == ["value"] else frame
        writer = frame.writeStream.format("json").outputMode("append")
        writer = writer.option("checkpointLocation", str(location)).trigger(availableNow=True)
        writer.start(str(output)).awaitTermination()
        files = [row for path in output.glob("*.json") for row in path.read_text().splitlines()]
        found.append(len(files))
    assert found == [0, 1, 2, 3]


def test_timers_wait_for_the_interval_of_a_trigger(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path
) -> None:
    source = feed("k STRING, t LONG")
    source.add({"k": "a", "t": 1_000})
    rows = collected(alarms(readings(env, source), wait_ms=100))
    trigger = {"processingTime": "2 seconds"}
    job = env.execute_async("interval", checkpoint_location=str(location), trigger=trigger)
    until(lambda: rows)
    time.sleep(4)
    assert len(rows) == 1
    assert len(markers(location)) <= 3
    job.cancel()


def test_elements_of_an_input_without_a_watermark_have_that_of_the_other(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    with_one, without = feed("k STRING, t LONG"), feed("k STRING, t LONG")
    both = timed(readings(env, with_one)).union(readings(env, without))
    rows = collected(alarms(both, wait_ms=300))
    job = env.execute_async("union")
    with_one.add({"k": "a", "t": 5_000})
    without.add({"k": "b", "t": 1})
    until(lambda: len(rows) == 2)
    assert sorted(key for key, _, _ in rows) == ["a", "b"]
    job.cancel()


def test_windows_refuse_rows_without_an_event_time(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    source = feed("k STRING, ts TIMESTAMP")
    frame = source.dataframe().withWatermark("ts", "1 second")
    windowed = (
        env.from_dataframe(frame).key_by("k").window(TumblingEventTimeWindows.of(Time.seconds(1)))
    )
    windowed.process(Counted(), RESULT).uid("windows").print()
    source.add({"k": "a", "ts": datetime(2026, 1, 1, tzinfo=UTC).isoformat()}, {"k": "b"})
    told = r"operator 'windows'.* key 'b': .* has no timestamp.* its event-time column is null"
    with pytest.raises(InvalidRequestError, match=told):
        env.execute("null", trigger={"availableNow": True})


@pytest.mark.parametrize("backend", [pytest.param("heap", marks=pytest.mark.slow), "rocksdb"])
@pytest.mark.parametrize("keys", [1, 10_000])
def test_ten_thousand_timers_that_are_due_at_once_all_fire(
    env: StreamExecutionEnvironment,
    feed: MakeFeed,
    connect: Connect,
    backend: str,
    keys: int,
) -> None:
    count = 10_000
    source = feed("k STRING, t LONG")
    env.set_state_backend(backend)
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(60))
    strategy = bounded.with_timestamp_assigner(OfReading())
    rows = collected(alarms(readings(env, source).assign_timestamps_and_watermarks(strategy)))
    job = env.execute_async(f"storm of {keys}")
    source.add(*({"k": f"k{number % keys}", "t": 1_000_000 + number} for number in range(count)))
    job.process_all_available()
    timers = connect(job).get_timers(job.job_id, "alarm.timers", "k0")
    assert len(timers) == count // keys
    assert rows == []
    source.add({"k": "last", "t": 9_000_000})
    until(lambda: len(rows) >= count)
    assert len(rows) == len(set(rows)) == count
    assert len({key for key, _, _ in rows}) == keys
    if keys == 1:
        assert rows == sorted(rows, key=lambda row: row[1])
    job.cancel()
