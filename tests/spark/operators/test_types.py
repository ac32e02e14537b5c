"""Types on Spark: rows as Python classes between operators, and values that Spark has not."""

from __future__ import annotations

from datetime import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.row_functions import AddUp, Place, Seen, Tell, Told, place_of

from queryable_state.streaming import (
    Instant,
    PickleSerializer,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment


@pytest.fixture
def times(spark: SparkSession) -> Iterator[None]:
    """Spark has TIME columns only on request."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.usefixtures("times")
def test_rows_pass_between_operators_as_their_classes(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed("sensor string, at time(6), amount bigint")
    stream = env.from_dataframe(source.dataframe())
    assert stream.get_type() == Types.ROW_NAMED(
        ["sensor", "at", "amount"], [Types.STRING(), Types.SQL_TIME(), Types.LONG()]
    )
    seen = stream.key_by("sensor").process(AddUp(), Seen).uid("add")
    told = seen.key_by("at").process(Tell(), Told).uid("tell")
    assert told.get_type().get_field_names() == ["sensor", "text"]
    found: list[Any] = []

    def collect(batch: DataFrame, batch_id: int) -> None:
        found.extend(map(tuple, batch.collect()))

    told.add_sink(collect)
    source.add({"sensor": "a", "at": "10:00:00.5", "amount": 7})
    source.add({"sensor": "a", "at": "10:00:00.5", "amount": 8})
    job = env.execute_async("types")
    job.process_all_available()

    assert found == [
        ("a", f"10:00:00.500000 7 {10**30 + 7}"),
        ("a", f"10:00:00.500000 8 {10**30 + 15}"),
    ]
    client = connect(job)
    last = client.get_kv_state("types", "lastSeen", "a").value()
    assert last == ("a", time(10, 0, 0, 500000), Instant(0, 8_000_000), 10**30 + 15)
    described = ValueStateDescriptor("last", Seen)
    assert type(client.get_kv_state("types", "lastSeen", "a", descriptor=described).value()) is Seen
    every = ValueStateDescriptor("every", PickleSerializer())
    assert client.get_kv_state("types", "every", "a", descriptor=every).value() == {7, 8}
    job.cancel()


def test_a_function_may_compute_keys_of_types_that_spark_has_not(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed("sensor string, amount bigint")
    stream = env.from_dataframe(source.dataframe())
    stream.key_by(place_of, Place).as_queryable_state("places").uid("places")
    source.add({"sensor": "a", "amount": 7}, {"sensor": "b", "amount": 8})
    job = env.execute_async("places")
    job.process_all_available()
    client = connect(job)
    assert client.get_kv_state("places", "places", place_of({"amount": 8})).value() == ("b", 8)
    job.cancel()
