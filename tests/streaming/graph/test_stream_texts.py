"""The one-line texts of streams."""

from __future__ import annotations

from typing import Any

from queryable_state.streaming import KeyedProcessFunction, OperatorStream, Types
from queryable_state.streaming.datastream import DataStream
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import FrameNode, OperatorNode, SourceNode
from queryable_state.streaming.runtime.operators.operators import KeyedProcess
from queryable_state.wire.schema.types import type_info

ROWS = type_info("sensor STRING, degrees DOUBLE")
ENVIRONMENT: Any = None
FRAME: Any = None


class Nothing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        pass


def source(columns: Columns) -> SourceNode:
    return SourceNode(dataframe=FRAME, columns=columns)


def test_a_stream_shows_its_kind_and_its_columns() -> None:
    stream = DataStream(ENVIRONMENT, source(Columns.of_output(ROWS)))
    assert repr(stream) == "<DataStream: source, columns sensor string, degrees double>"
    bare = DataStream(ENVIRONMENT, source(Columns.of_output(Types.LONG())))
    assert repr(bare) == "<DataStream: source, elements bigint>"


def test_a_keyed_stream_shows_its_key() -> None:
    keyed = DataStream(ENVIRONMENT, source(Columns.of_output(ROWS))).key_by("sensor")
    assert repr(keyed) == (
        "<KeyedStream: source, key sensor string, columns sensor string, degrees double>"
    )
    connected = keyed.connect(keyed)
    inner = repr(keyed)[len("<KeyedStream: ") : -1]
    assert repr(connected) == f"<KeyedConnectedStreams: ({inner}) and ({inner})>"


def test_an_operator_shows_name_uid_and_parallelism() -> None:
    node = OperatorNode(
        inputs=(),
        kind="process",
        operator=KeyedProcess(Nothing()),
        output_type=ROWS,
        columns=Columns.of_output(ROWS),
    )
    stream = OperatorStream(ENVIRONMENT, node)
    assert "process, uid process-0, parallelism of the environment, columns" in repr(stream)
    stream.uid("alerts-1").name("alerts").set_parallelism(4)
    assert repr(stream) == (
        "<OperatorStream: process 'alerts', uid alerts-1, parallelism 4, "
        "columns sensor string, degrees double>"
    )


def test_a_wide_stream_is_one_short_line() -> None:
    columns = Columns({f"c{number}": Types.LONG() for number in range(100)})
    union = FrameNode(upstreams=(), kind="union", apply=lambda each: each, columns=columns)
    text = repr(DataStream(ENVIRONMENT, union))
    assert text.startswith("<DataStream: union, columns c0 bigint, c1 bigint")
    assert text.endswith(", and 88 more>")
