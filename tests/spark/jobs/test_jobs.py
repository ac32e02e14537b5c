"""Jobs: several ends in one query, and queries the user starts himself."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.waiting import until

from queryable_state.streaming import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment


def reading(sensor: str, temperature: float = 1.0) -> dict[str, object]:
    return {"sensor": sensor, "temperature": temperature}


def test_several_states_and_sinks_run_as_one_query_and_each_operator_once(
    env: StreamExecutionEnvironment,
    spark: SparkSession,
    feed: MakeFeed,
    connect: Connect,
    tmp_path: Path,
) -> None:
    source = feed(READINGS)
    calls = tmp_path / "calls"
    seen: dict[str, list[tuple[object, ...]]] = {"counts": [], "high": []}

    def sink(name: str) -> Callable[[DataFrame, int], None]:
        def write(batch: DataFrame, batch_id: int) -> None:
            assert batch.count() == len(batch.collect())
            seen[name].extend(tuple(row) for row in batch.collect())

        return write

    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    counted = keyed.process(CountPerKey(log=str(calls)), COUNTS).uid("counts")
    counted.add_sink(sink("counts"))
    counted.add_sink(sink("high"))
    counted.key_by("sensor").as_queryable_state("lastCount").uid("last")
    keyed.aggregate_max("temperature", queryable_name="max").uid("max")
    source.add(reading("a", 5.0), reading("b"), reading("a"))
    source.add(reading("b", 7.0))
    job = env.execute_async("several")
    job.process_all_available()
    assert [query.name for query in spark.streams.active] == ["several"]
    assert Counter(calls.read_text().split()) == {"a": 2, "b": 2}
    assert seen["counts"] == seen["high"]
    assert sorted(seen["counts"]) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    client = connect(job)
    assert client.get_kv_state(job.job_id, "lastCount", "b").value().count == 2
    assert client.get_kv_state(job.job_id, "max", "b").get() == 7.0
    assert client.get_kv_state(job.job_id, "count", "a").value() == 2


def test_a_query_the_user_starts_is_queryable(
    env: StreamExecutionEnvironment, spark: SparkSession, feed: MakeFeed, connect: Connect
) -> None:
    source = feed(READINGS)
    frame = (
        env.from_dataframe(source.dataframe())
        .key_by("sensor")
        .process(CountPerKey("counted"), COUNTS)
        .uid("counts")
        .to_dataframe()
    )
    assert frame.isStreaming
    assert frame.columns == ["sensor", "count"]
    source.add(reading("a"), reading("a"))
    query = (
        frame.where("count > 1")
        .writeStream.format("memory")
        .queryName("rows_of_user")
        .outputMode("append")
        .start()
    )
    query.processAllAvailable()
    assert [tuple(row) for row in spark.table("rows_of_user").collect()] == [("a", 2)]
    client = connect(env)

    def counted() -> list[object]:
        states = client.get_kv_states(str(query.id), "counted", ["a"])
        return [None if state is None else state.value() for state in states]

    # Spark's wait ends with its commit; the servers are told of it right after.
    until(lambda: counted() == [2])
    assert client.get_kv_state("rows_of_user", "counted", "a").value() == 2


def test_a_native_aggregation_in_update_mode_becomes_queryable(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed("id string, amount bigint")
    totals = source.dataframe().groupBy("id").agg(F.sum("amount").alias("total"))
    env.from_dataframe(totals).key_by("id").as_queryable_state("totals").uid("totals")
    source.add({"id": "x", "amount": 5}, {"id": "y", "amount": 1})
    source.add({"id": "x", "amount": 7})
    job = env.execute_async("native")
    job.process_all_available()
    client = connect(job)
    assert client.get_kv_state(job.job_id, "totals", "x").value().total == 12
    assert client.get_kv_state(job.job_id, "totals", "y").value().total == 1


def test_a_job_with_an_end_answers_after_it(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed(READINGS)
    env.from_dataframe(source.dataframe()).key_by("sensor").as_queryable_state("last").uid("last")
    source.add(reading("a", 1.0))
    source.add(reading("a", 2.0))
    job = env.execute_async("bounded", trigger={"availableNow": True})
    result = job.get_job_execution_result().result(timeout=60)
    assert result.get_job_id() == job.get_job_id()
    assert result.get_net_runtime() > 0
    assert job.status() is JobStatus.FINISHED
    assert connect(job).get_kv_state(job.job_id, "last", "a").value().temperature == 2.0


def test_state_goes_on_after_a_restart_from_the_checkpoint(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect, tmp_path: Path
) -> None:
    """The servers outlive the query, so its second run finds the state of the first."""
    source = feed(READINGS)
    ids, counts = [], []
    for _ in range(2):
        source.add(reading("a"))
        stream = env.from_dataframe(source.dataframe()).key_by("sensor")
        stream.process(CountPerKey(), COUNTS).uid("counts")
        job = env.execute_async("restarted", checkpoint_location=str(tmp_path / "checkpoint"))
        job.process_all_available()
        ids.append(job.job_id)
        client = connect(job)
        counts.append(client.get_kv_state(job.job_id, "count", "a").value())
        job.cancel()
    assert ids[0] == ids[1]
    assert counts == [1, 2]


def test_elements_are_printed(
    env: StreamExecutionEnvironment, feed: MakeFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    source = feed(READINGS)
    env.from_dataframe(source.dataframe()).print()
    source.add(reading("a", 1.5))
    env.execute("print", trigger={"availableNow": True})
    assert capsys.readouterr().out == "Row(sensor='a', temperature=1.5)\n"


def test_operators_without_a_uid_are_warned_of(
    env: StreamExecutionEnvironment, feed: MakeFeed, caplog: pytest.LogCaptureFixture
) -> None:
    stream = env.from_dataframe(feed(READINGS).dataframe()).key_by("sensor")
    with caplog.at_level(logging.WARNING, "queryable_state.streaming"):
        stream.aggregate_max("temperature").to_dataframe()
    assert "max-0" in caplog.text
