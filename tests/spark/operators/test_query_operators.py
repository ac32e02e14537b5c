"""The operators of running queries, as their plans name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming.spark.queries.query_operators import query_operators

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from tests.spark.conftest import MakeFeed

    from queryable_state.streaming import DataStream, StreamExecutionEnvironment

ODD_UID = 'count "sensors" {of} [a, b]; größer'


def counted(stream: DataStream, uid: str) -> DataStream:
    return stream.key_by("sensor").process(CountPerKey(uid), COUNTS).uid(uid)


def execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery()


def uids(query: StreamingQuery) -> list[str]:
    return [operator.uid for operator in query_operators(execution(query))]


def started(frame: DataFrame) -> StreamingQuery:
    return frame.writeStream.format("noop").outputMode("append").start()


def test_plans_name_their_operators_before_a_batch_has_run(
    spark: SparkSession, env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    rows = feed(READINGS).dataframe()
    source = env.from_dataframe(rows)
    first = counted(source, ODD_UID)
    other = counted(source, "other").to_dataframe()
    chained = counted(first, "second").to_dataframe()
    alone = first.to_dataframe()
    names = spark.createDataFrame([("a", "Anna")], "sensor string, name string").persist()
    parts = alone.where("count > 1").selectExpr("sensor", "count + 1 AS count")
    cases: Iterable[tuple[DataFrame, list[str]]] = [
        (rows, []),
        (alone, [ODD_UID]),
        (chained, ["second", ODD_UID]),
        (alone.union(other), [ODD_UID, "other"]),
        (alone.union(parts), [ODD_UID]),
        (alone.join(names, "sensor").repartition(3).coalesce(1), [ODD_UID]),
        (names.join(other, "sensor").where("1 = 0"), ["other"]),
        (rows.mapInArrow(lambda batches: batches, READINGS), []),
    ]
    for frame, wanted in cases:
        query = started(frame)
        assert uids(query) == wanted
        query.stop()
    query = started(alone)
    (operator,) = query_operators(execution(query))
    query.stop()
    assert operator.parallelism == 2
    assert operator.max_parallelism == 128
    assert operator.config_id
    names.unpersist()


def test_a_batch_function_hides_what_it_does_and_not_what_it_is_given(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    """What a job of several sinks applies in its own batch function, its plan does not have."""
    source = feed(READINGS)
    source.add({"sensor": "a", "temperature": 1.0})
    frame = counted(env.from_dataframe(source.dataframe()), "given").to_dataframe()

    def persist(batch: DataFrame, batch_id: int) -> None:
        batch.persist().count()

    query = frame.writeStream.foreachBatch(persist).start()
    query.processAllAvailable()
    assert uids(query) == ["given"]
    query.stop()
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    for uid in ("one", "two"):
        keyed.process(CountPerKey(uid), COUNTS).uid(uid).add_sink(persist)
    job = env.execute_async("several ends")
    assert uids(job.query) == []
    job.cancel()
