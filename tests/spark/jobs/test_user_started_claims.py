"""What only a running query of the user's own can get wrong, as he hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming import StreamExecutionEnvironment
from queryable_state.streaming.spark.queries.failure import failure_of
from queryable_state.wire.errors import JobError, Reason

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
