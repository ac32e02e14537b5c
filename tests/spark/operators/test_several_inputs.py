"""Jobs whose operators have several inputs, and jobs with several sources and sinks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.functions import COUNTS, READINGS, CountPerKey, JoinThresholds, StartingCount

from queryable_state.streaming import Types
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment

THRESHOLDS = "sensor string, threshold double"
ALERTS = Types.ROW_NAMED(["sensor", "alerts"], [Types.STRING(), Types.LONG()])


class Collected:
    """Rows that a sink receives."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.rows += [tuple(row) for row in batch.collect()]


def reading(sensor: str, temperature: float) -> dict[str, object]:
    return {"sensor": sensor, "temperature": temperature}


def test_two_sources_in_one_job_feed_two_operators(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    first, second = feed(READINGS), feed("sensor string, note string")
    env.from_dataframe(first.dataframe()).key_by("sensor").process(CountPerKey("one"), COUNTS).uid(
        "one"
    )
    env.from_dataframe(second.dataframe()).key_by("sensor").process(CountPerKey("two"), COUNTS).uid(
        "two"
    )
    first.add(reading("a", 1.0), reading("a", 2.0))
    second.add({"sensor": "b", "note": "x"})
    job = env.execute_async("two sources")
    job.process_all_available()
    first.add(reading("b", 1.0))
    job.process_all_available()
    client = connect(job)
    found = {
        name: [
            state and state.value() for state in client.get_kv_states(job.job_id, name, ["a", "b"])
        ]
        for name in ("one", "two")
    }
    assert found == {"one": [2, 1], "two": [None, 1]}


def test_a_union_counts_the_elements_of_all_its_streams(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    first, second = feed(READINGS), feed("temperature double, sensor string")
    streams = [env.from_dataframe(each.dataframe()) for each in (first, second)]
    united = streams[0].union(streams[1])
    collected = Collected()
    united.key_by("sensor").process(CountPerKey("united"), COUNTS).uid("counts").add_sink(collected)
    first.add(reading("a", 1.0), reading("b", 2.0))
    second.add(reading("a", 3.0))
    job = env.execute_async("union")
    job.process_all_available()
    assert Counter(sensor for sensor, _ in collected.rows) == {"a": 2, "b": 1}
    assert connect(job).get_kv_state(job.job_id, "united", "a").value() == 2


def test_a_union_behind_operators_keeps_their_subtasks(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    """A Spark union in the stage of an operator would renumber its partitions."""
    source = feed(READINGS)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    one = keyed.process(CountPerKey("one"), COUNTS).uid("one")
    two = keyed.process(CountPerKey("two"), COUNTS).uid("two")
    both = one.union(two).key_by("sensor").process(CountPerKey("both"), COUNTS).uid("both")
    collected = Collected()
    both.add_sink(collected)
    source.add(*(reading(f"s{number}", 1.0) for number in range(20)))
    job = env.execute_async("union of operators")
    job.process_all_available()
    assert Counter(sensor for sensor, _ in collected.rows) == {f"s{n}": 2 for n in range(20)}
    client = connect(job)
    keys = [f"s{number}" for number in range(20)]
    for name, count in (("one", 1), ("two", 1), ("both", 2)):
        found = client.get_kv_states(job.job_id, name, keys)
        assert [state and state.value() for state in found] == [count] * 20


def test_two_keyed_streams_share_the_state_of_each_key(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    thresholds, readings = feed(THRESHOLDS), feed(READINGS)
    collected = Collected()
    first = env.from_dataframe(thresholds.dataframe()).key_by("sensor")
    second = env.from_dataframe(readings.dataframe()).key_by("sensor")
    first.connect(second).process(JoinThresholds(), ALERTS).uid("join").add_sink(collected)
    thresholds.add({"sensor": "a", "threshold": 10.0})
    readings.add(reading("a", 12.0), reading("a", 8.0), reading("b", 99.0))
    job = env.execute_async("connect")
    job.process_all_available()
    readings.add(reading("a", 11.0))
    job.process_all_available()
    assert collected.rows == [("a", 1), ("a", 2)]
    assert connect(job).get_kv_state(job.job_id, "threshold", "a").value() == 10.0


def test_streams_with_other_key_types_cannot_be_connected(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    first = env.from_dataframe(feed(READINGS).dataframe()).key_by("sensor")
    second = env.from_dataframe(feed(READINGS).dataframe()).key_by("temperature")
    with pytest.raises(InvalidRequestError, match="key both by the same types"):
        first.connect(second)


def test_ten_operators_by_ten_keys_run_in_one_stage(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    columns = [f"k{number}" for number in range(10)]
    source = feed(", ".join(f"{name} bigint" for name in columns) + ", v double")
    stream = env.from_dataframe(source.dataframe())
    for name in columns:
        stream.key_by(name).aggregate_sum("v", queryable_name=f"by_{name}").uid(name)
    source.add(
        *({**{k: row % (n + 1) for n, k in enumerate(columns)}, "v": 1.0} for row in range(60))
    )
    job = env.execute_async("ten keys")
    job.process_all_available()
    client = connect(job)
    for number, name in enumerate(columns):
        found = client.get_kv_states(job.job_id, f"by_{name}", range(number + 1))
        assert sum(state.get() for state in found if state) == 60.0
    plan = job.query._jsq.streamingQuery().lastExecution().executedPlan().toString()
    assert plan.count("MapInArrow") == 1


def test_a_lookup_join_adds_columns_of_a_static_frame(
    env: StreamExecutionEnvironment, feed: MakeFeed, spark: SparkSession
) -> None:
    source, collected = feed(READINGS), Collected()
    places = spark.createDataFrame([("a", "roof")], "sensor string, place string")
    joined = env.from_dataframe(source.dataframe()).lookup_join(places, "sensor")
    joined.transform(lambda frame: frame.where("temperature > 1")).add_sink(collected)
    source.add(reading("a", 2.0), reading("b", 3.0), reading("a", 0.0))
    env.execute_async("lookup").process_all_available()
    assert sorted(collected.rows) == [("a", 2.0, "roof"), ("b", 3.0, None)]


def test_a_transformation_that_needs_other_batches_is_refused(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    stream = env.from_dataframe(feed(READINGS).dataframe())
    for function in (
        lambda frame: frame.groupBy("sensor").count(),
        lambda frame: frame.dropDuplicates(),
        lambda frame: frame.limit(3),
    ):
        with pytest.raises(InvalidRequestError, match="rows of other batches"):
            stream.transform(function)


def test_initial_state_is_read_in_the_first_batch_only(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect, spark: SparkSession
) -> None:
    source = feed(READINGS)
    initial = spark.createDataFrame([("a", 10), ("c", 5)], "sensor string, count bigint")
    env.from_dataframe(source.dataframe()).key_by("sensor").process(
        StartingCount(), COUNTS, initial_state=initial
    ).uid("counts")
    job = env.execute_async("initial state")
    for _ in range(3):
        source.add(reading("a", 1.0), reading("b", 1.0))
        job.process_all_available()
    found = connect(job).get_kv_states(job.job_id, "count", ["a", "b", "c"])
    assert [state and state.value() for state in found] == [13, 3, 5]
