"""Watermarks that strategies assign, in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.event_time.clock_functions import (
    READING,
    SEEN,
    Behind,
    Clocks,
    FailsTwice,
    OfReading,
    reading,
)

from queryable_state.streaming import Duration, SparkSource, Types, WatermarkStrategy
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.event_time import NO_WATERMARK

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from tests.spark.conftest import MakeFeed

    from queryable_state.streaming import DataStream, StreamExecutionEnvironment

BOUND = Duration.of_millis(500)
BATCHES = [[("a", 10_000), ("b", 9_000)], [("a", 8_000)], [("b", 20_000)], [("a", 20_001)]]
WATERMARKS = [NO_WATERMARK, 9_499, 9_499, 19_499]
"""Of each batch: the greatest timestamp of the batches before, less the bound and 1 ms."""


def strategy() -> WatermarkStrategy:
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(BOUND)
    return bounded.with_timestamp_assigner(OfReading())


@pytest.fixture
def readings(env: StreamExecutionEnvironment, feed: MakeFeed) -> DataStream:
    """Readings with a watermark, behind a function."""
    source = feed("k STRING, t LONG")
    for batch in BATCHES:
        source.add(*({"k": key, "t": at} for key, at in batch))
    stream = env.from_dataframe(source.dataframe()).map(reading, READING)
    return stream.assign_timestamps_and_watermarks(strategy())


def run(env: StreamExecutionEnvironment, **streams: DataStream) -> dict[str, list[list[Any]]]:
    """The rows of each stream in each batch, sorted."""
    found: dict[str, list[list[Any]]] = {name: [] for name in streams}
    for name, stream in streams.items():

        def write(batch: DataFrame, batch_id: int, name: str = name) -> None:
            found[name].append(sorted(tuple(row.value) for row in batch.collect()))

        stream.add_sink(write)
    env.execute("watermarks", trigger={"availableNow": True})
    return found


def expected(watermarks: list[int]) -> list[list[Any]]:
    return [
        sorted((key, at, watermark) for key, at in batch)
        for batch, watermark in zip(BATCHES, watermarks, strict=True)
    ]


def test_the_watermark_of_a_batch_is_that_of_the_batches_before(
    env: StreamExecutionEnvironment, readings: DataStream
) -> None:
    """In the plan of the query."""
    clocks = readings.key_by(lambda each: each[0], Types.STRING()).process(Clocks(), SEEN)
    assert run(env, clocks=clocks.uid("clocks")) == {"clocks": expected(WATERMARKS)}


def test_it_is_the_same_for_operators_that_run_in_each_batch(
    env: StreamExecutionEnvironment, readings: DataStream
) -> None:
    """With several sinks; a deeper operator is as many batches behind."""
    clocks = readings.key_by(lambda each: each[0], Types.STRING()).process(Clocks(), SEEN)
    behind = clocks.uid("clocks").key_by(lambda each: each[0], Types.STRING())
    found = run(env, clocks=clocks, behind=behind.process(Behind(), SEEN).uid("behind"))
    assert found["clocks"] == expected(WATERMARKS)
    assert found["behind"] == expected([NO_WATERMARK, *WATERMARKS[:-1]])


def test_a_replayed_batch_has_the_same_watermark(
    env: StreamExecutionEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    source = feed("k STRING, t LONG")
    for batch in BATCHES:
        source.add(*({"k": key, "t": at} for key, at in batch))
    found: dict[int, list[Any]] = {}

    def write(batch: DataFrame, batch_id: int) -> None:
        found[batch_id] = sorted(tuple(row.value) for row in batch.collect())

    def run_job() -> None:
        stream = env.from_dataframe(source.dataframe()).map(reading, READING)
        timed = stream.assign_timestamps_and_watermarks(strategy())
        keyed = timed.key_by(lambda each: each[0], Types.STRING())
        clocks = keyed.process(FailsTwice(str(tmp_path / "attempts")), SEEN).uid("clocks")
        clocks.add_sink(write)
        location = str(tmp_path / "checkpoint")
        env.execute("replayed", checkpoint_location=location, trigger={"availableNow": True})

    with pytest.raises(UserFunctionError, match="on purpose"):
        run_job()
    assert list(found) == [0]
    run_job()
    assert [found[batch] for batch in sorted(found)] == expected(WATERMARKS)


def test_two_watermarked_inputs_have_the_minimum(
    env: StreamExecutionEnvironment, readings: DataStream, feed: MakeFeed
) -> None:
    slow = feed("k STRING, t LONG")
    for number in range(len(BATCHES)):
        slow.add({"k": "slow", "t": 1_000 + number})
    other = env.from_dataframe(slow.dataframe()).map(reading, READING)
    both = readings.union(other.assign_timestamps_and_watermarks(strategy()))
    clocks = both.key_by(lambda each: each[0], Types.STRING()).process(Clocks(), SEEN)
    found = run(env, clocks=clocks.uid("clocks"))["clocks"]
    seen = [{watermark for key, _, watermark in batch} for batch in found]
    assert seen == [{NO_WATERMARK}, {499}, {500}, {501}]


def test_a_source_takes_a_strategy_and_its_own_timestamps(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "0.json").write_text('{"k": "a", "ts": "1970-01-01T00:00:05Z"}\n')
    source = SparkSource(
        format="json",
        path=str(tmp_path),
        schema="k STRING, ts TIMESTAMP",
        is_bounded=True,
        event_time="ts",
    )
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "readings")
    assert stream.get_name() == "readings"
    clocks = stream.key_by("k").process(Clocks(), SEEN).uid("clocks")
    assert run(env, clocks=clocks) == {"clocks": [[("a", 5_000, NO_WATERMARK)]]}


def test_watermarks_are_refused_behind_state_and_on_a_watermark(
    env: StreamExecutionEnvironment, readings: DataStream, feed: MakeFeed
) -> None:
    clocks = readings.key_by(lambda each: each[0], Types.STRING()).process(Clocks(), SEEN)
    with pytest.raises(InvalidRequestError, match="output of the stateful operator 'clocks'"):
        clocks.uid("clocks").assign_timestamps_and_watermarks(strategy())
    own = feed("k STRING, t LONG, ts TIMESTAMP").dataframe().withWatermark("ts", "1 second")
    with pytest.raises(InvalidRequestError, match="has a watermark already"):
        env.from_dataframe(own).assign_timestamps_and_watermarks(strategy())


def test_idleness_is_refused_with_several_watermarks(
    env: StreamExecutionEnvironment, readings: DataStream, feed: MakeFeed
) -> None:
    other = env.from_dataframe(feed("k STRING, t LONG").dataframe()).map(reading, READING)
    idle = other.assign_timestamps_and_watermarks(strategy().with_idleness(BOUND))
    both = readings.union(idle).key_by(lambda each: each[0], Types.STRING())
    both.process(Clocks(), SEEN).uid("clocks").print()
    with pytest.raises(InvalidRequestError, match="2 inputs with watermarks"):
        env.execute_async("idle")
