"""Streams with event time, and those whose rows have the internal column with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.stateless.chains import stream

from queryable_state.streaming import (
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    Types,
)
from queryable_state.streaming.graph.chains import chains_of
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.job_graph import JobGraph
from queryable_state.streaming.graph.nodes import SinkNode
from queryable_state.streaming.graph.stages import StageInput, stages_of
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming import DataStream

ROW = "at timestamp, k string, n int"
LATE = OutputTag("late", Types.INT())


class Function(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return []


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return []


class Both(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> list[Any]:
        return []

    process_element2 = process_element1


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        return []

    process_broadcast_element = process_element


def graph_of(*made: DataStream) -> JobGraph:
    """The graph of sinks that write these streams."""
    return JobGraph.of_ends(
        [SinkNode(upstream=each._node, write=lambda batch, batch_id: None) for each in made]
    )


def carrying(*made: DataStream) -> list[str]:
    """Kinds of the nodes whose rows have the internal column, upstream first."""
    graph = graph_of(*made)
    nodes = [node for node in graph.nodes if not isinstance(node, SinkNode)]
    return [
        getattr(node, "kind", "side output") for node in nodes if graph.event_times.in_rows_of(node)
    ]


def inputs_of(*made: DataStream) -> list[StageInput]:
    stages = stages_of(graph_of(*made), lambda node: (2, 128), is_first_batch=True)
    return [each for stage in stages for each in stage.inputs]


def source(event_time: str | None = "at") -> DataStream:
    return stream(ROW, event_time)


def number(row: Any) -> int:
    return int(row.n)


def test_outputs_of_functions_have_event_time_if_an_input_has_it() -> None:
    timed, untimed = source(), source(None)
    assert timed.map(number)._node.columns.timestamps == EVENT_TIME_COLUMN
    assert untimed.map(number)._node.columns.timestamps == ""
    assert timed.filter(bool)._node.columns.timestamps == "at"
    assert timed.map(number).filter(bool)._node.columns.has_internal_time
    assert timed.process(Function()).get_side_output(LATE)._node.columns.has_internal_time
    both = timed.key_by("k").connect(untimed.key_by("k")).process(Both(), Types.INT())
    assert both._node.columns.has_internal_time
    assert untimed.map(number).connect(timed)._nodes[1].columns.timestamps == "at"
    summed = timed.key_by("k").aggregate_sum("n")
    assert summed._node.columns.timestamps == ""


def test_the_union_of_streams_has_event_time_if_one_of_them_has_it() -> None:
    assert source().union(source())._node.columns.timestamps == "at"
    assert source().union(source(None))._node.columns.has_internal_time
    assert source(None).union(source())._node.columns.has_internal_time
    assert source(None).union(source(None))._node.columns.timestamps == ""
    functions = source().map(number, Types.INT()), source(None).map(number, Types.INT())
    assert functions[1].union(functions[0])._node.columns.has_internal_time


def test_a_projection_has_event_time_with_or_without_the_column() -> None:
    assert source().project(1, 0)._node.columns.timestamps == "at"
    assert source().project(1, 2)._node.columns.has_internal_time
    assert source(None).project(1)._node.columns.timestamps == ""


def test_rows_have_the_internal_column_only_if_something_behind_them_reads_it() -> None:
    mapped = source().map(number, Types.INT())
    assert carrying(mapped) == []
    assert carrying(mapped.map(str).filter(bool)) == []
    assert carrying(mapped.key_by(str, order_by=None).aggregate_sum("value")) == []
    assert carrying(source().key_by("k").process(Keyed(), Types.INT())) == []
    assert carrying(mapped.process(Function(), Types.INT())) == ["map"]
    keyed = mapped.key_by(str)
    assert carrying(keyed.process(Keyed(), Types.INT())) == ["map", "key_by"]
    assert carrying(keyed.process(Keyed(), Types.INT()), mapped) == ["map", "key_by"]
    behind = keyed.reduce(max).key_by(str, order_by=None).process(Keyed(), Types.INT())
    assert carrying(behind) == ["map", "key_by", "reduce", "key_by"]


def test_rows_without_event_time_have_no_internal_column_whatever_reads_them() -> None:
    mapped = source(None).map(number, Types.INT()).process(Function(), Types.INT())
    keyed = mapped.key_by(str).process(Keyed(), Types.INT())
    side = keyed.get_side_output(LATE).process(Function(), Types.INT())
    assert carrying(keyed, side) == []


def test_a_side_output_has_the_column_if_something_reads_it() -> None:
    made = source().key_by("k").process(Keyed(), Types.INT())
    late = made.get_side_output(LATE)
    assert carrying(made, late) == []
    assert carrying(made, late.process(Function())) == ["process", "side output"]


def test_an_order_by_event_time_reads_the_column() -> None:
    mapped = source().map(number, Types.INT())
    ordered = mapped.key_by(str).as_queryable_state("last")
    graph = JobGraph.of_ends([ordered._node])
    (stage,) = stages_of(graph, lambda node: (2, 128), is_first_batch=True)
    assert EVENT_TIME_COLUMN in stage.inputs[0].columns
    assert stage.inputs[0].is_ordered
    unordered = mapped.key_by(str, order_by=None).as_queryable_state("other")
    graph = JobGraph.of_ends([unordered._node])
    (stage,) = stages_of(graph, lambda node: (2, 128), is_first_batch=True)
    assert EVENT_TIME_COLUMN not in stage.inputs[0].columns
    assert not any(chain.emits_event_time for chain in chains_of(graph).values())


def test_a_function_with_a_context_reads_the_column_also_without_an_order() -> None:
    rules = stream(Types.INT()).broadcast(MapStateDescriptor("rules", Types.INT(), Types.INT()))
    mapped = source().map(number, Types.INT())
    (first, second) = inputs_of(mapped.connect(rules).process(Rules(), Types.INT()))
    assert EVENT_TIME_COLUMN not in first.columns
    assert EVENT_TIME_COLUMN in second.columns


def test_the_name_of_the_internal_column_is_reserved() -> None:
    with pytest.raises(InvalidRequestError, match=r"'__Event_Time' is reserved.*rename"):
        Columns.of_output(Types.ROW_NAMED(["__Event_Time"], [Types.INT()]))
    with pytest.raises(InvalidRequestError, match="column '__event_time' does not exist"):
        source().map(number, Types.INT()).key_by(EVENT_TIME_COLUMN)
