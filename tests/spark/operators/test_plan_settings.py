"""What a job sets on its own Spark query, and leaves alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.functions import COUNTS, READINGS, CountPerKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from tests.spark.conftest import MakeFeed
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

REPLANNING = "spark.sql.adaptive.streaming.stateless.enabled"
BYTES_AT_ONCE = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = 2**31 - 1


def setting_of(job: JobClient, name: str) -> str:
    """As the job's query is planned by."""
    execution: Any = job.query._jsq.streamingQuery()
    return str(execution.sparkSessionForStream().conf().get(name))


@contextmanager
def session_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def counting(env: StreamExecutionEnvironment, source: Feed) -> JobClient:
    """A job of numbers by key."""
    stream = env.from_dataframe(source.dataframe())
    stream.key_by("sensor").process(CountPerKey(), COUNTS).uid("counts")
    job = env.execute_async("counting")
    source.add({"sensor": "a", "temperature": 1.0})
    job.process_all_available()
    return job


def test_a_job_is_planned_without_replanning_and_the_users_session_as_before(
    env: StreamExecutionEnvironment, spark: SparkSession, feed: MakeFeed
) -> None:
    before = spark.conf.get(REPLANNING), spark.conf.get(BYTES_AT_ONCE)
    job = counting(env, feed(READINGS))
    assert setting_of(job, REPLANNING) == "false"
    assert int(setting_of(job, BYTES_AT_ONCE)) == NO_LIMIT
    assert (spark.conf.get(REPLANNING), spark.conf.get(BYTES_AT_ONCE)) == before


def test_rows_with_values_of_any_length_are_still_measured(
    env: StreamExecutionEnvironment, spark: SparkSession, feed: MakeFeed
) -> None:
    source = feed(READINGS)
    stream = env.from_dataframe(source.dataframe().selectExpr("sensor", "sensor AS note"))
    stream.key_by("sensor").process(CountPerKey(), COUNTS).uid("counts")
    job = env.execute_async("counting notes")
    source.add({"sensor": "a", "temperature": 1.0})
    job.process_all_available()
    assert setting_of(job, BYTES_AT_ONCE) == spark.conf.get(BYTES_AT_ONCE)


@pytest.mark.parametrize(("name", "value"), [(REPLANNING, "true"), (BYTES_AT_ONCE, "1000000")])
def test_what_the_user_has_set_stays(
    env: StreamExecutionEnvironment, spark: SparkSession, feed: MakeFeed, name: str, value: str
) -> None:
    with session_setting(spark, name, value):
        job = counting(env, feed(READINGS))
        assert setting_of(job, name) == value
