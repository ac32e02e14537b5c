"""What only a running query of the user's own can get wrong, as he hears of it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming import StreamExecutionEnvironment
from queryable_state.streaming.spark.queries.failure import failure_of
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.spark.conftest import MakeFeed


def test_a_second_claim_of_a_name_fails_the_query_at_its_first_batch(
    spark: SparkSession, env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    """Two environments do not know of each other, and the query is started by neither."""
    source = feed(READINGS)
    source.add({"sensor": "a", "temperature": 1.0})
    counts = env.from_dataframe(source.dataframe()).key_by("sensor")
    first = counts.process(CountPerKey("taken"), COUNTS).uid("first").to_dataframe()
    other = StreamExecutionEnvironment.get_execution_environment(spark).from_dataframe(first)
    second = other.key_by(first.columns[0]).process(CountPerKey("taken"), COUNTS).uid("second")
    query = second.to_dataframe().writeStream.format("noop").outputMode("update").start()
    with pytest.raises(StreamingQueryException, match="'taken' is claimed twice in one job"):
        query.processAllAvailable()
    failure = failure_of(query)
    assert isinstance(failure, JobError)
    assert failure.reason == Reason.DUPLICATE_NAME
    assert "'first'" in str(failure)
    assert "'second'" in str(failure)


@pytest.mark.skipif(
    "realTime" not in inspect.signature(DataStreamWriter.trigger).parameters,
    reason="this Spark has no real-time mode",
)
def test_real_time_mode_fails_the_query_before_its_first_batch(
    spark: SparkSession, env: StreamExecutionEnvironment
) -> None:
    """Spark's own check of the plan is off, so that Spark starts the query."""
    check = "spark.sql.streaming.realTimeMode.allowlistCheck"
    jvm: Any = spark.sparkContext._jvm
    source = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream(
        1,
        spark._jsparkSession,
        1,
        jvm.org.apache.spark.util.SystemClock(),
        jvm.org.apache.spark.sql.Encoders.LONG(),
    )
    numbers = env.from_dataframe(DataFrame(source.toDF(), spark).selectExpr("value", "1 as one"))
    highest = numbers.key_by("one").aggregate_max("value").to_dataframe()
    writer: Any = highest.writeStream.format("noop").outputMode("update")
    spark.conf.set(check, "false")
    try:
        query = writer.trigger(realTime="5 minutes").start()
        with pytest.raises(StreamingQueryException, match=r"real-time mode .* is not supported"):
            query.awaitTermination(60)
    finally:
        spark.conf.unset(check)
    failure = failure_of(query)
    assert isinstance(failure, InvalidRequestError)
    assert failure.reason == Reason.UNSUPPORTED
    assert query.lastProgress is None
