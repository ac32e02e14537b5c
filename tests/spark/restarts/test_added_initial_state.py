"""Initial state of an operator that a job gets later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.functions import COUNTS, READINGS, CountPerKey, StartingCount
from tests.spark.restarts.test_durable_jobs import client_of, reading

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame
    from tests.spark.conftest import MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment


class FailingOnce:
    """A sink that reads its rows and then fails, until a file exists."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        batch.collect()
        if not self.mark.exists():
            self.mark.touch()
            raise RuntimeError("the sink fails after its operators have run")


def counting(env: StreamExecutionEnvironment, source: Feed, mark: Path | None) -> JobClient:
    """A job that counts; with a `mark` it has a second count, which starts from other numbers."""
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    keyed.process(CountPerKey(), COUNTS).uid("counts")
    if mark is not None:
        spark = source.dataframe().sparkSession
        initial = spark.createDataFrame([("a", 10), ("c", 5)], "sensor string, count bigint")
        keyed.process(StartingCount("started"), COUNTS, initial_state=initial).uid(
            "started"
        ).add_sink(FailingOnce(mark))
    return env.execute_async("counting")


def found(job: JobClient, name: str) -> list[int | None]:
    job.process_all_available()
    with client_of(job) as client:
        states = client.get_kv_states(job.job_id, name, ["a", "b", "c"])
    return [None if state is None else state.value() for state in states]


@pytest.mark.slow
def test_an_added_operator_reads_its_initial_state_once_in_its_first_batch(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """Its first batch fails when all state is sealed, and runs again with other servers."""
    source, mark, directory = feed(READINGS), tmp_path / "mark", str(tmp_path / "state")
    env = new_environment(checkpoint_directory=directory, backend="heap")
    source.add(reading("a"), reading("b"))
    job = counting(env, source, None)
    assert found(job, "count") == [1, 1, None]
    job.cancel()

    source.add(reading("a"))
    failing = counting(env, source, mark)
    with pytest.raises(Exception, match="the sink fails"):
        failing.process_all_available()
    env = new_environment(checkpoint_directory=directory, backend="heap")
    again = counting(env, source, mark)
    assert found(again, "started") == [11, None, 5]
    source.add(reading("a"), reading("c"))
    assert found(again, "started") == [12, None, 6]
    again.cancel()

    source.add(reading("b"))
    later = counting(env, source, mark)
    assert found(later, "started") == [12, 1, 6]
    assert found(later, "count") == [3, 2, 1]


def test_initial_state_in_a_savepoint_s_job_is_read_by_the_added_operator(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    source, mark = feed(READINGS), tmp_path / "mark"
    mark.touch()
    env = new_environment(checkpoint_directory=str(tmp_path / "state"), backend="heap")
    source.add(reading("a"))
    job = counting(env, source, None)
    job.process_all_available()
    uri = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    source.add(reading("a"))
    env = new_environment(
        checkpoint_directory=str(tmp_path / "other"), backend="heap", savepoint_path=uri
    )
    restored = counting(env, source, mark)
    assert found(restored, "started") == [11, None, 5]
    assert found(restored, "count") == [2, None, None]


def test_a_stream_with_initial_state_is_not_taken_as_a_dataframe(
    new_environment: NewEnvironment, feed: MakeFeed
) -> None:
    source = feed(READINGS)
    initial = source.dataframe().sparkSession.createDataFrame(
        [("a", 10)], "sensor string, count bigint"
    )
    keyed = new_environment().from_dataframe(source.dataframe()).key_by("sensor")
    stream = keyed.process(StartingCount(), COUNTS, initial_state=initial).uid("counts")
    with pytest.raises(InvalidRequestError, match="'counts' has initial_state"):
        stream.to_dataframe()
