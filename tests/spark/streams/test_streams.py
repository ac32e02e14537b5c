"""Streams of functions without state, and bounded jobs."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.streams.user_functions import (
    ODD,
    PAIR,
    FirstField,
    KeyedSplit,
    Modulo,
    Numbered,
    Split,
)

from queryable_state.streaming import JobStatus, SparkSink, SparkSource, Types, WatermarkStrategy
from queryable_state.streaming.functions import UserFunctionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame
    from tests.spark.conftest import Connect

    from queryable_state.streaming import DataStream, StreamExecutionEnvironment

PAIRS = [("a", 1), ("b", 2), ("a", 3), ("c", 4)]


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as found:  # type: ignore[union-attr]  # without a limit
        return list(found)


def into(found: list[Any]) -> Callable[[DataFrame, int], None]:
    """A sink that appends the values of a stream to a list."""
    return lambda batch, _: found.extend(row.value for row in batch.collect())


@pytest.fixture
def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection(PAIRS, PAIR)


def test_a_collection_is_read_in_its_order(env: StreamExecutionEnvironment) -> None:
    words = ["pyspark", "datastream", "execute", "collect"]
    assert env.from_collection(words).execute_and_collect(limit=3) == words[:3]
    assert collected(env.from_collection(words, Types.STRING())) == words


def test_values_of_every_python_type_pass(env: StreamExecutionEnvironment) -> None:
    values = [
        (
            number,
            None,
            True,
            1.98932,
            b"flink",
            "text",
            date(2014, 9, 13),
            time(12, 0, 0, 123000),
            datetime(2018, 3, 11, 3, 0, 0, 123000),  # noqa: DTZ001 - a local time
            [1, 2, 3],
            [["a", "b"], ["c"]],
            Decimal("1000000000000000000.05999999999999999899999999999"),
        )
        for number in (1, 2)
    ]
    assert collected(env.from_collection(values).map(lambda value: value)) == values


def test_a_chain_feeds_a_keyed_operator_and_another_chain(pairs: DataStream) -> None:
    tens = pairs.map(lambda pair: (pair[0], pair[1] * 10), PAIR).filter(lambda pair: pair[1] < 40)
    sums = tens.key_by(FirstField()).sum(1).map(lambda pair: f"{pair[0]}{pair[1]}", Types.STRING())
    assert sorted(collected(sums)) == ["a10", "a40", "b20"]


def test_keys_of_an_unknown_type_are_pickled(env: StreamExecutionEnvironment) -> None:
    objects = env.from_collection(PAIRS, Types.PICKLED_BYTE_ARRAY())
    keys = objects.key_by(lambda pair: (pair[0], True)).process(KeyedSplit())
    assert sorted(collected(keys)) == [("b", True), ("c", True)]


def test_rolling_aggregates_emit_whole_elements(env: StreamExecutionEnvironment) -> None:
    readings = [("a", 3, "x"), ("a", 1, "y"), ("a", 5, "z")]
    triple = Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])
    found: dict[str, list[Any]] = {}
    keyed = env.from_collection(readings, triple).key_by(0)
    for kind in ("sum", "min", "max", "min_by", "max_by"):
        found[kind] = []
        getattr(keyed, kind)(1).map(lambda row: f"{row[1]}{row[2]}", Types.STRING()).add_sink(
            into(found[kind])
        )
    env.execute("rolling")
    assert found == {
        "sum": ["3x", "4x", "9x"],
        "min": ["3x", "1x", "1x"],
        "max": ["3x", "3x", "5x"],
        "min_by": ["3x", "1y", "1y"],
        "max_by": ["3x", "3x", "5z"],
    }


def test_a_keyed_map_function_has_state(pairs: DataStream) -> None:
    numbered = pairs.key_by(lambda pair: pair[0]).map(Numbered(), PAIR)
    assert sorted(collected(numbered)) == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]


def test_one_function_object_in_two_operators_is_two_functions(pairs: DataStream) -> None:
    numbered = Numbered()
    first = pairs.key_by(lambda pair: pair[0]).map(numbered, PAIR)
    second = pairs.key_by(lambda pair: pair[0]).map(numbered, PAIR)
    once = [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    assert sorted(collected(first.union(second))) == sorted(once * 2)


def test_a_function_with_state_counts(pairs: DataStream) -> None:
    totals = pairs.key_by(0).map_with_state(
        lambda pair, total: ((total or 0) + pair[1],) * 2, Types.INT(), Types.INT()
    )
    assert sorted(collected(totals)) == [1, 2, 4, 4]


def test_side_outputs_are_streams(pairs: DataStream) -> None:
    split = pairs.process(Split(), Types.STRING())
    keyed = pairs.key_by(0).process(KeyedSplit(), Types.STRING())
    found: dict[str, list[Any]] = {}
    for name, stream in {
        "main": split,
        "side": split.get_side_output(ODD).map(lambda n: n + 10, Types.INT()),
        "keyed": keyed,
        "keyed side": keyed.get_side_output(ODD),
    }.items():
        found[name] = []
        stream.add_sink(into(found[name]))
    pairs.get_execution_environment().execute("sides")  # type: ignore[attr-defined]
    assert {name: sorted(values) for name, values in found.items()} == {
        "main": ["b", "c"],
        "side": [11, 13],
        "keyed": ["b", "c"],
        "keyed side": [1, 3],
    }


def test_a_function_with_two_readers_runs_once(env: StreamExecutionEnvironment, spark: Any) -> None:
    calls = spark.sparkContext.accumulator(0)

    def counted(value: int) -> int:
        calls.add(1)
        return value

    numbers = env.from_collection([1, 2, 3]).map(counted)
    found: list[int] = []
    numbers.filter(lambda n: n > 1).add_sink(into(found))
    numbers.filter(lambda n: n < 3).add_sink(into(found))
    env.execute("twice")
    assert sorted(found) == [1, 2, 2, 3]
    assert calls.value == 3


def test_elements_move_between_partitions(pairs: DataStream) -> None:
    moved = pairs.rebalance().shuffle().rescale().forward().global_()
    parted = moved.partition_custom(Modulo(), lambda pair: pair[1]).project(1, 0)
    assert sorted(collected(parted)) == [(1, "a"), (2, "b"), (3, "a"), (4, "c")]
    assert sorted(collected(pairs.broadcast())) == sorted(PAIRS * 2)


def test_a_partition_that_does_not_exist_is_refused(pairs: DataStream) -> None:
    with pytest.raises(UserFunctionError, match="the partitioner returned 9"):
        collected(pairs.partition_custom(lambda key, count: 9, lambda pair: pair[1]))


def test_a_bounded_job_finishes(pairs: DataStream, env: StreamExecutionEnvironment) -> None:
    pairs.print("pairs")
    job = env.execute_async("bounded")
    assert job.await_termination(60)
    assert job.status() == JobStatus.FINISHED


@pytest.mark.slow
def test_a_restarted_job_does_not_read_the_collection_again(
    env: StreamExecutionEnvironment, connect: Connect, tmp_path: Path
) -> None:
    def run(elements: list[Any]) -> None:
        keyed = env.from_collection(elements, PAIR).key_by(0)
        keyed.map_with_state(
            lambda pair, total: ((total or 0) + pair[1],) * 2,
            Types.INT(),
            Types.INT(),
            queryable_name="totals",
        ).uid("totals")
        env.execute_async("again", checkpoint_location=str(tmp_path)).await_termination(60)

    run(PAIRS)
    run(PAIRS)
    run([*PAIRS, ("a", 10)])
    client = connect(env)
    assert client.get_kv_state("again", "totals", "a").value() == 14


def test_the_failure_of_a_function_is_raised_from_the_iterator(pairs: DataStream) -> None:
    with pytest.raises(UserFunctionError, match=r"element \('b', 2\).*ZeroDivisionError"):
        collected(pairs.map(lambda pair: 1 // (pair[1] - 2), Types.INT()))


def test_lines_of_a_text_file_are_elements(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_bytes("eins\nzwei\nfünf\n".encode("latin-1"))
    stream = env.read_text_file(str(tmp_path / "lines.txt"), "ISO-8859-1")
    assert sorted(collected(stream.map(str.upper, Types.STRING()))) == ["EINS", "FÜNF", "ZWEI"]


def test_formats_of_spark_are_sources_and_sinks(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"word": "x", "n": 1}\n')
    source = SparkSource(
        format="json", path=str(tmp_path / "in"), schema="word string, n int", is_bounded=True
    )
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
    rows.map(lambda row: row.word * 3, Types.STRING()).sink_to(
        SparkSink(format="text", path=str(tmp_path / "out"))
    )
    env.execute("formats")
    (written,) = (tmp_path / "out").glob("*.txt")
    assert written.read_text() == "xxx\n"


def test_print_writes_elements(
    pairs: DataStream, env: StreamExecutionEnvironment, capfd: pytest.CaptureFixture[str]
) -> None:
    pairs.filter(lambda pair: pair[1] == 2).print("found")
    env.execute("printing")
    assert "found> ('b', 2)\n" in capfd.readouterr().out
