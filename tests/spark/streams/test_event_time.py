"""Event time of elements behind functions, in Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from tests.spark.streams.event_time_functions import (
    ALL,
    NUMBERED,
    PAIR,
    RULES,
    STAMPED,
    Joined,
    Numbered,
    Ruled,
    Stamped,
    pair,
)

from queryable_state.streaming import Types
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.streaming.spark.plan.event_time import with_internal_time
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import MakeFeed

    from queryable_state.streaming import DataStream, StreamExecutionEnvironment

SCHEMA = "ts TIMESTAMP, k STRING, n INT"
ROWS: list[dict[str, Any]] = [
    {"k": "a", "n": 1, "ts": "2026-01-01T00:00:03.001999Z"},
    {"k": "b", "n": 2, "ts": None},
    {"k": "a", "n": 3, "ts": "1969-12-31T23:59:59.999500Z"},
    {"k": "a", "n": 4, "ts": "2026-01-01T00:00:01Z"},
]
TIMES = {1: 1767225603001, 2: None, 3: -1, 4: 1767225601000}
STAMPS = sorted(TIMES.items())


@pytest.fixture
def timed(env: StreamExecutionEnvironment, feed: MakeFeed) -> DataStream:
    """Rows with event time, in one batch."""
    source = feed(SCHEMA)
    source.add(*ROWS)
    return env.from_dataframe(source.dataframe().withWatermark("ts", "1 day"))


@pytest.fixture
def untimed(env: StreamExecutionEnvironment, feed: MakeFeed) -> DataStream:
    """A row without event time."""
    source = feed(SCHEMA)
    source.add({"k": "a", "n": 9, "ts": "2026-01-01T00:00:09Z"})
    return env.from_dataframe(source.dataframe())


def run(env: StreamExecutionEnvironment, **streams: DataStream) -> dict[str, list[Any]]:
    """Runs one job; the elements of each stream, sorted, and as `<name>.columns` its columns."""
    found: dict[str, list[Any]] = {}

    def sink(name: str) -> Callable[[DataFrame, int], None]:
        def write(batch: DataFrame, batch_id: int) -> None:
            found[f"{name}.columns"] = batch.columns
            rows = (tuple(row.value) if len(row) == 1 else tuple(row) for row in batch.collect())
            found.setdefault(name, []).extend(rows)

        return write

    for name, stream in streams.items():
        stream.add_sink(sink(name))
    env.execute("event time", trigger={"availableNow": True})
    return {name: sorted(rows) for name, rows in found.items()}


def stamped(stream: DataStream) -> DataStream:
    return stream.process(Stamped(), STAMPED)


def test_timestamps_pass_functions_operators_and_side_outputs(
    env: StreamExecutionEnvironment, timed: DataStream
) -> None:
    pairs = timed.map(pair, PAIR)
    keyed = pairs.key_by(lambda each: each[0], Types.STRING())
    numbered = keyed.process(Numbered(), NUMBERED).uid("numbered")
    again = numbered.key_by(lambda each: each[1] % 2, Types.INT()).max(1).uid("greatest")
    found = run(
        env,
        pairs=pairs,
        numbered=numbered,
        main=stamped(numbered),
        side=stamped(numbered.get_side_output(ALL)),
        again=again.map(lambda each: each, NUMBERED).process(Stamped(), STAMPED),
    )
    # In the order of event time: 3, 4, 1.
    assert found["numbered"] == [(1, 2), (1, 3), (2, 4), (3, 1)]
    assert found["main"] == found["side"] == STAMPS
    # 3 and then 1 of one key, 2 and then 4 of the other, each with its own timestamp.
    assert found["again"] == [(2, None), (3, -1), (3, TIMES[1]), (4, TIMES[4])]
    assert found["pairs.columns"] == found["numbered.columns"] == ["value"]


def test_timestamps_pass_unions_partitions_projections_and_lookups(
    env: StreamExecutionEnvironment, spark: SparkSession, timed: DataStream, untimed: DataStream
) -> None:
    pairs = timed.map(pair, PAIR)
    rows = timed.map(lambda row: (row.n, row.k), Types.ROW_NAMED(["n", "k"], ["int", "string"]))
    names = spark.createDataFrame([("a", "x"), ("b", "y")], "k string, name string")
    visible = timed.lookup_join(names, "k")
    found = run(
        env,
        union=stamped(pairs.union(untimed.map(pair, PAIR))),
        sources=stamped(untimed.union(timed)),
        rebalanced=stamped(pairs.rebalance()),
        partitioned=stamped(
            pairs.partition_custom(lambda key, count: key % count, lambda each: each[1])
        ),
        broadcast=stamped(pairs.broadcast()),
        projected=stamped(pairs.project(1)),
        without_time=stamped(timed.project(2)),
        joined=stamped(rows.lookup_join(names, "k")),
        source_joined=stamped(visible),
        kept=stamped(timed.transform(lambda frame: frame.select("n", F.col("ts").alias("at")))),
        lost=stamped(rows.transform(lambda frame: frame.where("n > 0"))),
        plain=rows.lookup_join(names, "k"),
    )
    with_nine = sorted([*STAMPS, (9, None)])
    assert found["union"] == found["sources"] == with_nine
    for name in ("rebalanced", "partitioned", "projected", "without_time", "joined", "kept"):
        assert found[name] == STAMPS, name
    assert found["source_joined"] == STAMPS
    assert found["broadcast"] == sorted(STAMPS * 2)
    assert found["lost"] == [(number, None) for number in TIMES]
    assert found["plain.columns"] == ["k", "n", "name"]


def test_connected_streams_see_the_timestamps_of_their_own_elements(
    env: StreamExecutionEnvironment, timed: DataStream, untimed: DataStream
) -> None:
    pairs, other = timed.map(pair, PAIR), untimed.map(pair, PAIR)
    joined = pairs.connect(other).key_by(0, 0).process(Joined(), STAMPED).uid("joined")
    ruled = other.connect(pairs.broadcast(RULES)).process(Ruled(), STAMPED).uid("ruled")
    found = run(
        env,
        joined=joined,
        behind=stamped(joined.map(lambda each: each[0], Types.INT())),
        ruled=ruled,
    )
    assert found["joined"] == found["behind"] == sorted([*STAMPS, (-9, None)])
    assert [each for _, each in found["behind"]] == [each for _, each in found["behind"]]
    each_subtask = sorted((-number, at) for number, at in STAMPS * 2)
    assert found["ruled"] == sorted([(9, None), *each_subtask])


def test_one_query_has_the_same_order_and_a_dataframe_without_the_internal_column(
    timed: DataStream,
) -> None:
    keyed = timed.map(pair, PAIR).key_by(lambda each: each[0], Types.STRING())
    numbered = keyed.process(Numbered(), NUMBERED).uid("numbered")
    behind = numbered.process(Stamped(), STAMPED)
    assert sorted(behind.execute_and_collect(limit=4)) == STAMPS
    frame = timed.map(pair, PAIR).key_by(0).process(Numbered(), NUMBERED).to_dataframe()
    assert frame.columns == ["value"]


@pytest.mark.parametrize("name", ["ts", "ntz"])
def test_the_internal_column_rounds_down_in_any_time_zone(spark: SparkSession, name: str) -> None:
    texts = ["2026-03-29 02:30:00.001999", "1969-12-31 23:59:59.9995", "0001-01-01 00:00:00", None]
    frame = spark.createDataFrame([(text,) for text in texts], "text string").select(
        F.concat("text", F.lit("Z")).cast("timestamp").alias("ts"),
        F.col("text").cast("timestamp_ntz").alias("ntz"),
    )
    info = type_info("ts timestamp, ntz timestamp_ntz")
    columns = Columns({field.name: field.type for field in info.fields}, event_time=name)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        made = with_internal_time(frame, columns).select(EVENT_TIME_COLUMN)
        found = [row[0] for row in made.collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found == [1774751400001, -1, -62135596800000, None]
