"""Data streams as PyFlink's programs declare them: keys, connections, numbers, plans, options."""

from __future__ import annotations

import json
import logging
from datetime import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.streams.test_streams import PAIRS, into
from tests.spark.streams.user_functions import (
    LABELS,
    PAIR,
    Announced,
    CountedSum,
    FirstField,
    Labelled,
)

from queryable_state.streaming import Row, SlotSharingGroup, Types
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming import DataStream, StreamExecutionEnvironment


@pytest.fixture
def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection(PAIRS, PAIR)


def test_a_keyed_stream_is_collected_with_its_keys(pairs: DataStream) -> None:
    found: Any = pairs.key_by(lambda pair: pair[0], Types.STRING()).execute_and_collect(limit=4)
    assert found == [Row(f0=pair[0], f1=pair) for pair in PAIRS]


def test_pickled_keys_are_collected_as_objects(pairs: DataStream) -> None:
    keyed = pairs.key_by(lambda pair: {"odd": pair[1] % 2 == 1}, Types.PICKLED_BYTE_ARRAY())
    found: Any = keyed.execute_and_collect(limit=1)
    assert found == [Row(f0={"odd": True}, f1=PAIRS[0])]


def test_several_keys_are_collected_as_a_row(env: StreamExecutionEnvironment) -> None:
    row = Types.ROW_NAMED(["at", "name", "paid"], [Types.SQL_TIME(), Types.STRING(), Types.INT()])
    keyed = env.from_collection([(time(9, 30), "a", 5)], row).key_by("name", "paid")
    found: Any = keyed.execute_and_collect(limit=1)
    assert found == [Row(f0=Row(name="a", paid=5), f1=Row(at=time(9, 30), name="a", paid=5))]


def test_functions_of_a_program_of_pyflink(
    env: StreamExecutionEnvironment, pairs: DataStream
) -> None:
    """A reduce function with state, streams connected with and without keys, a broadcast function
    without an output type, and decimals as they were written."""
    keyed = pairs.key_by(FirstField())
    others = env.from_collection([("c", 10), ("a", 20)], PAIR)
    labels = env.from_collection([("a", "red"), ("b", "blue")], Types.TUPLE([Types.STRING()] * 2))
    labelled = pairs.connect(labels.broadcast(LABELS)).process(func=Labelled())
    found: dict[str, list[Any]] = {}
    for name, stream in {
        "reduced": keyed.reduce(CountedSum()),
        "announced": keyed.connect(others)
        .key_by(FirstField(), FirstField())
        .map(func=Announced(), output_type=Types.STRING()),
        "united": others.union(keyed),
        "labelled": labelled.map(lambda text: text, Types.STRING()),
        "decimals": pairs.map(lambda pair: Decimal(pair[1]) / 4, Types.BIG_DEC()).map(
            str, Types.STRING()
        ),
    }.items():
        stream.add_sink(into(found.setdefault(name, [])))
    env.execute("a program of PyFlink")
    assert {name: sorted(values) for name, values in found.items()} == {
        "reduced": [("a", 1), ("a", 4), ("b", 2), ("c", 4)],
        "announced": [
            *("first a 1", "first a 2", "first b 1", "first c 1"),
            *("second a 3", "second c 2"),
        ],
        "united": sorted([("c", 10), ("a", 20), *PAIRS]),
        "labelled": ["None 4", "blue 2", "red 1", "red 3"],
        "decimals": ["0.25", "0.5", "0.75", "1"],
    }


def test_the_plan_has_what_was_declared(env: StreamExecutionEnvironment, pairs: DataStream) -> None:
    described = pairs.map(lambda pair: pair, PAIR).name("copy").set_description("the same pair")
    doubled = described.set_parallelism(3).rebalance().map(lambda pair: pair[1] * 2, Types.INT())
    doubled.add_sink(into([])).name("kept").set_parallelism(2).set_description("doubled numbers")
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [(node["type"], node["contents"], node["parallelism"]) for node in nodes] == [
        ("Source: Collection Source", "Source: Collection Source", 1),
        ("copy", "the same pair", 3),
        ("map", "map", 2),
        ("Sink: kept", "doubled numbers", 2),
    ]
    assert [node["predecessors"][0]["ship_strategy"] for node in nodes[1:]] == [
        "FORWARD",
        "REBALANCE",
        "FORWARD",
    ]


def test_options_of_flinks_scheduler_have_no_effect_and_say_so(
    env: StreamExecutionEnvironment, pairs: DataStream, caplog: pytest.LogCaptureFixture
) -> None:
    group = SlotSharingGroup.builder("heavy").build()
    with caplog.at_level(logging.WARNING, "queryable_state.streaming"):
        assert env.register_slot_sharing_group(group) is env
        sink = pairs.slot_sharing_group(group).add_sink(into([])).slot_sharing_group("heavy")
        sink.set_uid_hash("0f" * 16).disable_chaining().uid("kept")
    assert "register_slot_sharing_group has no effect: Spark assigns tasks" in caplog.text
    assert pairs.get_execution_config() is env.get_config()
    assert pairs.key_by(0).get_execution_config() is env.get_config()
    with pytest.raises(InvalidRequestError, match="takes a SlotSharingGroup, not 'heavy'"):
        env.register_slot_sharing_group("heavy")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="parallelism must be at least 1, not 0"):
        sink.set_parallelism(0)


def test_what_spark_cannot_do_is_refused_with_another_way(
    env: StreamExecutionEnvironment, pairs: DataStream
) -> None:
    with pytest.raises(InvalidRequestError, match="Declare all readers of the stream in one job"):
        pairs.cache()
    with pytest.raises(InvalidRequestError, match=r"SparkSource\(format"):
        env.create_input(object())
    with pytest.raises(InvalidRequestError, match="only unions another one"):
        pairs.union(pairs).set_description("both")
    with pytest.raises(InvalidRequestError, match="connect takes streams, not 7"):
        pairs.key_by(0).connect(7)  # type: ignore[call-overload]
