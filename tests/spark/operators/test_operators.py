"""Each operator, queried by a real client while its job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.functions import (
    COUNTS,
    READINGS,
    CollectionSize,
    CountPerKey,
    EveryState,
    TypeTeller,
)

from queryable_state.streaming import (
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from queryable_state.wire.errors import InvalidRequestError, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment


def reading(sensor: str, temperature: float) -> dict[str, object]:
    return {"sensor": sensor, "temperature": temperature}


def test_the_state_of_a_process_function_is_answered_batch_by_batch(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed(READINGS)
    stream = env.from_dataframe(source.dataframe())
    stream.key_by("sensor").process(CountPerKey(), COUNTS).uid("counts")
    source.add(reading("a", 1.0), reading("b", 2.0), reading("a", 3.0))
    job = env.execute_async("process")
    job.process_all_available()
    client = connect(job)
    assert client.get_kv_state(job.job_id, "count", "a").value() == 2
    assert client.get_kv_state("process", "count", "b").value() == 1
    with pytest.raises(UnknownKeyOrNamespaceError):
        client.get_kv_state(job.job_id, "count", "c")
    source.add(reading("a", 4.0), reading("c", 5.0))
    job.process_all_available()
    found = client.get_kv_states(job.job_id, "count", ["a", "b", "c", "d"])
    assert [None if state is None else state.value() for state in found] == [3, 1, 1, None]


def test_collections_in_a_worker_leave_out_what_it_has_imported(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    """Spark has a worker collect after each task."""
    source, rows = feed(READINGS), []
    output = Types.ROW_NAMED(
        ["sensor", "objects", "frozen"], [Types.STRING(), Types.LONG(), Types.LONG()]
    )
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.process(CollectionSize(), output).uid("sizes").add_sink(
        lambda batch, batch_id: rows.extend(batch.collect())
    )
    source.add(reading("a", 1.0), reading("b", 2.0))
    env.execute_async("collections").process_all_available()
    assert all(row.frozen > row.objects for row in rows)
    assert len(rows) == 2


def test_all_kinds_of_keyed_state_are_answered(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed(READINGS)
    stream = env.from_dataframe(source.dataframe())
    stream.key_by("sensor").process(EveryState(), Types.LONG()).uid("every")
    source.add(reading("a", 20.5), reading("a", 22.5))
    source.add(reading("a", 20.0), reading("b", 7.0))
    job = env.execute_async("every-state")
    job.process_all_available()
    client = connect(job)
    get = client.get_kv_state
    assert get(job.job_id, "value", "a").value() == 20.0
    assert list(get(job.job_id, "list", "a").get()) == [20.5, 22.5, 20.0]
    assert dict(get(job.job_id, "map", "a").items()) == {20: 2, 22: 1}
    assert get(job.job_id, "reducing", "a").get() == 22.5
    assert get(job.job_id, "aggregating", "a").get() == 21.0
    assert get(job.job_id, "value", "b").value() == 7.0


def test_a_function_reads_the_same_however_its_rows_are_cut_into_batches(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source, rows = feed(READINGS), []
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.process(TypeTeller(), "sensor STRING, told STRING").uid("told").add_sink(
        lambda batch, batch_id: rows.extend(batch.collect())
    )
    for temperature in (0.1, 0.2, 0.3):
        source.add(reading("cut", temperature))
    source.add(*(reading("whole", temperature) for temperature in (0.1, 0.2, 0.3)))
    job = env.execute_async("cuts")
    job.process_all_available()
    cut, whole = ([row.told for row in rows if row.sensor == key] for key in ("cut", "whole"))
    assert cut == whole
    assert "Row Row(n=2, f=0.2000000" in whole[2]
    client = connect(job)
    one, other = (client.get_kv_state(job.job_id, "rows", key).value() for key in ("cut", "whole"))
    assert one == other
    one, other = (client.get_kv_state(job.job_id, "entries", key) for key in ("cut", "whole"))
    assert dict(one.items()) == dict(other.items())
    assert client.contains(job.job_id, "entries", "cut", "0.1")
    assert client.get_map_entry(job.job_id, "entries", "cut", "0.1").value() is None


def test_a_function_with_a_hook_that_nothing_calls_is_refused_before_the_job_starts(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    class Listening(CountPerKey):
        def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None: ...

    keyed = env.from_dataframe(feed(READINGS).dataframe()).key_by("sensor")
    with pytest.raises(InvalidRequestError, match=r"Listening\.notify_checkpoint_subsumed would"):
        keyed.process(Listening(), COUNTS)


def test_sums_minima_and_maxima_are_put_out_and_kept(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed("k bigint, n int, x double")
    keyed = env.from_dataframe(source.dataframe()).key_by("k")
    rows: list[tuple[object, ...]] = []

    def collect(batch: DataFrame, batch_id: int) -> None:
        rows.extend(sorted(tuple(row) for row in batch.collect()))

    keyed.aggregate_sum("n", queryable_name="sum").uid("sum").add_sink(collect)
    keyed.aggregate_min("x", "n", queryable_name="min").uid("min")
    keyed.aggregate_max("x", queryable_name="max").uid("max")
    source.add({"k": 1, "n": 1, "x": 5.0}, {"k": 2, "n": 10, "x": 1.0}, {"k": 1, "n": 2, "x": 3.0})
    source.add({"k": 1, "n": 4, "x": 9.0})
    job = env.execute_async("aggregates")
    job.process_all_available()
    assert rows == [(1, 3), (2, 10), (1, 7)]
    client = connect(job)
    assert client.get_kv_state(job.job_id, "sum", 1).get() == 7
    assert tuple(client.get_kv_state(job.job_id, "min", 1).get()) == (3.0, 1)
    assert client.get_kv_state(job.job_id, "max", 1).get() == 9.0
    assert client.get_kv_state(job.job_id, "max", 2).get() == 1.0


def test_a_reduced_stream_puts_out_each_intermediate_value(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    source = feed(READINGS)
    rows: list[tuple[object, ...]] = []

    def collect(batch: DataFrame, batch_id: int) -> None:
        rows.extend(tuple(row) for row in batch.collect())

    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream.reduce(lambda a, b: (a.sensor, a.temperature + b.temperature)).uid("r").sink_to(collect)
    source.add(reading("a", 1.0), reading("a", 2.0))
    source.add(reading("a", 4.0))
    job = env.execute_async("reduce")
    job.process_all_available()
    assert rows == [("a", 1.0), ("a", 3.0), ("a", 7.0)]


def test_the_last_element_of_each_key_is_queryable(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed(READINGS)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    keyed.as_queryable_state("last").uid("last")
    keyed.as_queryable_state("plain", ValueStateDescriptor("t", Types.DOUBLE())).uid("plain")
    highest = ReducingStateDescriptor("highest", max, Types.DOUBLE())
    keyed.as_queryable_state("highest", highest).uid("highest")
    source.add(reading("a", 1.0), reading("a", 9.0), reading("b", 2.0))
    source.add(reading("a", 3.0))
    job = env.execute_async("last")
    job.process_all_available()
    client = connect(job)
    last = client.get_kv_state(job.job_id, "last", "a").value()
    assert (last.sensor, last.temperature) == ("a", 3.0)
    assert client.get_kv_state(job.job_id, "plain", "a").value() == 3.0
    assert client.get_kv_state(job.job_id, "highest", "a").get() == 9.0


def test_keys_of_several_columns_and_of_a_function_are_the_same_tuples(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed("sensor string, room int, temperature double")
    stream = env.from_dataframe(source.dataframe())
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    stream.key_by("sensor", "room").aggregate_sum("temperature", queryable_name="by columns").uid(
        "columns"
    )
    stream.key_by(lambda row: (row.sensor, row.room), pair).aggregate_sum(
        "temperature", queryable_name="by function"
    ).uid("function")
    stream.key_by(lambda row: row.sensor.upper(), Types.STRING()).process(
        CountPerKey("by upper"), COUNTS
    ).uid("upper")
    source.add(
        {"sensor": "a", "room": 1, "temperature": 1.5},
        {"sensor": "a", "room": 2, "temperature": 2.0},
        {"sensor": "a", "room": 1, "temperature": 2.0},
    )
    job = env.execute_async("keys")
    job.process_all_available()
    client = connect(job)
    assert client.get_kv_state(job.job_id, "by columns", ("a", 1)).get() == 3.5
    assert client.get_kv_state(job.job_id, "by function", ("a", 1)).get() == 3.5
    assert client.get_kv_state(job.job_id, "by function", ("a", 2)).get() == 2.0
    assert client.get_kv_state(job.job_id, "by upper", "A").value() == 3


def test_two_stateful_operators_in_a_chain(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed(READINGS)
    counted = env.from_dataframe(source.dataframe()).key_by("sensor").process(CountPerKey(), COUNTS)
    counted.uid("count").key_by("count").process(CountPerKey("reached"), COUNTS).uid("reached")
    source.add(reading("a", 1.0), reading("b", 1.0), reading("a", 1.0))
    source.add(reading("b", 1.0), reading("c", 1.0))
    job = env.execute_async("chain")
    job.process_all_available()
    client = connect(job)
    # Three sensors had a first reading, two a second one.
    assert client.get_kv_state(job.job_id, "reached", 1).value() == 3
    assert client.get_kv_state(job.job_id, "reached", 2).value() == 2
    assert client.get_kv_state(job.job_id, "count", "b").value() == 2
