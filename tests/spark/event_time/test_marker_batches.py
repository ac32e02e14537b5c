"""Batches without input, in Spark: which jobs have them, and that every task runs in them."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.event_time.clock_functions import READING, SEEN, Clocks, OfReading, Timed, reading
from tests.waiting import until

from queryable_state.streaming import Types, WatermarkStrategy
from queryable_state.streaming.spark.sources.marker_offset import MarkerOffset

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import MakeFeed

    from queryable_state.streaming import DataStream, StreamExecutionEnvironment

SUBTASKS = 2
IDLE_S = 1.5
"""Long enough for batches that a job must not have."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    found = tmp_path / "tasks"
    found.touch()
    return found


@pytest.fixture
def location(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def keyed(stream: DataStream) -> Any:
    return stream.key_by(lambda each: each[0], Types.STRING())


def two_deep(stream: DataStream, log: Path) -> tuple[DataStream, DataStream]:
    """Two operators, one behind the other."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OfReading())
    timed = stream.assign_timestamps_and_watermarks(strategy)
    first = keyed(timed).process(Timed("first", str(log)), SEEN).uid("first")
    return first, keyed(first).process(Timed("second", str(log)), SEEN).uid("second")


def markers(location: Path) -> list[MarkerOffset | None]:
    """The marker's offset in each committed batch; None: the query has none."""
    found: list[MarkerOffset | None] = []
    while (location / "commits" / str(len(found))).exists():
        lines = (location / "offsets" / str(len(found))).read_text().split("\n")[2:]
        *others, last = map(MarkerOffset.parse, lines)
        assert not any(others)
        found.append(last)
    return found


def has_batches(location: Path, count: int) -> bool:
    return len(markers(location)) == count


def ran(log: Path) -> set[tuple[str, int, int]]:
    """The tasks that ran: operator, batch and subtask."""
    lines = (line.split() for line in log.read_text().splitlines())
    return {(name, int(batch), int(subtask)) for name, batch, subtask in lines}


def every_task(batches: int) -> set[tuple[str, int, int]]:
    return {
        (name, batch, subtask)
        for name in ("first", "second")
        for batch in range(batches)
        for subtask in range(SUBTASKS)
    }


@pytest.mark.slow
@pytest.mark.parametrize("sinks", [1, 2])
def test_a_bounded_job_reaches_the_end_of_time_at_every_depth(
    env: StreamExecutionEnvironment, location: Path, log: Path, sinks: int
) -> None:
    """In the plan of the query, and by a function for each batch."""
    stream = env.from_collection([("a", 1_000), ("b", 2_000)], READING)
    rows: list[Any] = []
    for end in two_deep(stream, log)[-sinks:]:
        end.add_sink(lambda batch, _: rows.extend(batch.collect()))
    env.execute("bounded", checkpoint_location=str(location))
    ended = [marker is not None and marker.ended for marker in markers(location)]
    # The input, a batch without input that shows its end, and one for each depth.
    assert ended == [False, False, True, True]
    assert ran(log) == every_task(4)
    assert len(rows) == 2 * sinks


@pytest.mark.slow
@pytest.mark.parametrize("sinks", [1, 2])
def test_a_run_begins_with_a_batch_and_an_idle_one_has_no_more(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path, log: Path, sinks: int
) -> None:
    source = feed("k STRING, t LONG")
    for run in range(2):
        stream = env.from_dataframe(source.dataframe()).map(reading, READING)
        for end in two_deep(stream, log)[-sinks:]:
            end.add_sink(lambda batch, _: batch.collect())
        job = env.execute_async("idle", checkpoint_location=str(location))
        until(partial(has_batches, location, run + 1))
        time.sleep(IDLE_S)
        assert len(markers(location)) == run + 1
        job.cancel()
    first, second = markers(location)
    assert first is not None
    assert second is not None
    assert (first.tick, second.tick) == (1, 2)
    assert first.clock_id != second.clock_id
    assert ran(log) == every_task(2)


@pytest.mark.slow
def test_a_job_without_timers_has_no_marker_source(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path
) -> None:
    source = feed("k STRING, t LONG")
    source.add({"k": "a", "t": 1})
    stream = env.from_dataframe(source.dataframe()).map(reading, READING)
    keyed(stream).process(Clocks(), SEEN).uid("clocks").print()
    job = env.execute_async("without timers", checkpoint_location=str(location))
    until(lambda: markers(location) == [None])
    time.sleep(IDLE_S)
    assert markers(location) == [None]
    job.cancel()


@pytest.mark.slow
def test_a_query_of_the_user_has_batches_without_input(
    env: StreamExecutionEnvironment, feed: MakeFeed, location: Path, log: Path
) -> None:
    source = feed("k STRING, t LONG")
    source.add({"k": "a", "t": 1})
    stream = env.from_dataframe(source.dataframe()).map(reading, READING)
    _, second = two_deep(stream, log)
    write = second.to_dataframe().writeStream.format("noop")
    write = write.option("checkpointLocation", str(location))
    for batches in (1, 2):
        query = write.trigger(availableNow=True).start()
        query.awaitTermination()
        assert [each is not None for each in markers(location)] == [True] * batches
    assert ran(log) == every_task(2)
    offsets = (location / "offsets" / "1").read_text().split("\n")
    assert json.loads(offsets[-1])["ended"] is False
