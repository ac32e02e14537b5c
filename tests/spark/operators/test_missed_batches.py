"""Batches in which the user's actions leave an operator out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.waiting import until

from queryable_state.streaming.spark.queries.failure import failure_of
from queryable_state.wire.errors import JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from tests.spark.conftest import Connect, MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.streaming import StreamExecutionEnvironment

    Sink = Callable[[DataFrame, int], object]

BATCHES = 6
_ADAPTIVE = "spark.sql.adaptive.enabled"


def fed(feed: MakeFeed) -> Feed:
    source = feed(READINGS)
    for _ in range(BATCHES):
        source.add(*({"sensor": sensor, "temperature": 1.0} for sensor in "aab"))
    return source


def pruned(batch: DataFrame, batch_id: int) -> object:
    """An action a batch, most of which Spark's optimizer answers without the operator."""
    nothing = batch.sparkSession.createDataFrame([], "sensor string").limit(0)
    actions: list[Callable[[], object]] = [
        lambda: batch.where("1=0").count(),
        lambda: batch.limit(0).collect(),
        lambda: batch.where(batch.sensor.isin([])).count(),
        lambda: batch.join(nothing, "sensor").collect(),
        lambda: batch.count(),
        lambda: None,
    ]
    return actions[batch_id % len(actions)]()


def counts(env: StreamExecutionEnvironment, source: Feed, uid: str = "counts") -> DataFrame:
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    return keyed.process(CountPerKey(uid), COUNTS).uid(uid).to_dataframe()


def test_a_job_runs_every_operator_whatever_its_sinks_do(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = fed(feed)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    for uid in ("one", "two"):
        keyed.process(CountPerKey(uid), COUNTS).uid(uid).add_sink(pruned)
    several = env.execute_async("several sinks")
    env.from_dataframe(source.dataframe()).key_by("sensor").process(CountPerKey(), COUNTS).uid(
        "counts"
    ).add_sink(pruned)
    single = env.execute_async("one sink")
    for job, names in ((several, ("one", "two")), (single, ("count",))):
        job.process_all_available()
        for name in names:
            found = connect(job).get_kv_states(job.job_id, name, ["a", "b"])
            assert [state and state.value() for state in found] == [2 * BATCHES, BATCHES], name
        job.cancel()


@pytest.fixture
def lazy(spark: SparkSession) -> Iterator[None]:
    """Batches that Spark computes when an action asks for them.

    With adaptive execution it runs the shuffle behind an operator before it calls the function.
    """
    spark.conf.set(_ADAPTIVE, "false")
    yield
    spark.conf.unset(_ADAPTIVE)


def started(frame: DataFrame, location: Path, sink: Sink) -> StreamingQuery:
    writer = frame.writeStream.option("checkpointLocation", str(location))
    return writer.foreachBatch(lambda batch, batch_id: (sink(batch, batch_id), None)[1]).start()


def test_a_query_with_adaptive_execution_misses_nothing(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path
) -> None:
    query = started(counts(env, fed(feed)), tmp_path / "checkpoint", lambda batch, _: None)
    query.processAllAvailable()
    found = connect(env).get_kv_states(str(query.id), "counts", ["a", "b"])
    assert [state and state.value() for state in found] == [2 * BATCHES, BATCHES]
    query.stop()


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("changelog", ["on", pytest.param("off", marks=pytest.mark.slow)])
def test_a_query_that_misses_a_batch_fails_and_runs_it_again(
    new_environment: NewEnvironment,
    feed: MakeFeed,
    connect: Connect,
    tmp_path: Path,
    changelog: str,
) -> None:
    env = new_environment(changelog=changelog)
    frame = counts(env, fed(feed))
    location = tmp_path / "checkpoint"
    query = started(frame, location, lambda batch, n: batch.count() if n % 2 == 0 else None)
    with pytest.raises(StreamingQueryException, match="batch 1"):
        query.processAllAvailable()
    failure = failure_of(query)
    assert isinstance(failure, JobError)
    assert failure.reason == Reason.PARTIAL_BATCH
    until(lambda: not (location / "commits" / "1").exists(), timeout_s=60)
    assert (location / "commits" / "0").exists()
    query = started(frame, location, lambda batch, _: batch.count())
    query.processAllAvailable()
    found = connect(env).get_kv_states(str(query.id), "counts", ["a", "b"])
    assert [state and state.value() for state in found] == [2 * BATCHES, BATCHES]
    query.stop()


@pytest.mark.usefixtures("lazy")
def test_a_query_that_never_runs_its_operator_fails_at_its_first_batch(
    env: StreamExecutionEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    location = tmp_path / "checkpoint"
    query = started(counts(env, fed(feed)), location, lambda batch, _: None)
    until(lambda: not query.isActive, timeout_s=60)
    assert "the operator did not run" in str(failure_of(query))
    until(lambda: not list((location / "commits").glob("[0-9]*")))


def test_a_plan_without_its_operator_is_refused_before_its_sink_has_anything(
    env: StreamExecutionEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    writer = counts(env, fed(feed)).limit(0).writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(
        str(tmp_path / "out")
    )
    until(lambda: not query.isActive, timeout_s=60)
    assert "optimizer removes operator 'counts' from the plan" in str(failure_of(query))
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.usefixtures("lazy")
def test_a_query_that_is_not_strict_goes_on(
    spark: SparkSession,
    new_environment: NewEnvironment,
    feed: MakeFeed,
    connect: Connect,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = new_environment(strict=False)
    with caplog.at_level(logging.ERROR):
        query = started(
            counts(env, fed(feed)),
            tmp_path / "checkpoint",
            lambda batch, n: batch.count() if n % 2 == 0 else None,
        )
        query.processAllAvailable()
        state = connect(env).get_kv_state(str(query.id), "counts", "b")
        until(lambda: "batch 5" in caplog.text)
    assert state.value() == BATCHES // 2
    assert caplog.text.count("PARTIAL_BATCH") == BATCHES // 2
    query.stop()
