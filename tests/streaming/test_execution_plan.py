"""The execution plan of a graph: Flink's fields, ship strategies, drawings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.execution_plan import ExecutionPlan
from queryable_state.streaming.graph.job_graph import JobGraph
from queryable_state.streaming.graph.keys import KeySelector
from queryable_state.streaming.graph.nodes import (
    FrameNode,
    OperatorInput,
    OperatorNode,
    SinkNode,
    SourceNode,
    StreamNode,
)
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Types

COLUMNS = Columns({"k": Types.STRING(), "v": Types.LONG()})


def source() -> SourceNode:
    frame: Any = None
    return SourceNode(dataframe=frame, columns=COLUMNS)


def frame(kind: str, *upstreams: StreamNode) -> FrameNode:
    return FrameNode(upstreams=upstreams, kind=kind, apply=lambda *each: each[0], columns=COLUMNS)


def latest(upstream: StreamNode, name: str, *, broadcast: StreamNode | None = None) -> OperatorNode:
    """A queryable sink, with a broadcast input if one is given."""
    descriptor = ValueStateDescriptor(name, Types.LONG())
    descriptor.set_queryable(name)
    inputs = [
        OperatorInput(
            upstream=upstream,
            keys=KeySelector.by_columns(("k",), COLUMNS),
            value_columns=("v",),
            value_type=Types.LONG(),
        )
    ]
    if broadcast is not None:
        inputs.append(
            OperatorInput(
                upstream=broadcast,
                keys=None,
                is_broadcast=True,
                value_columns=("v",),
                value_type=Types.LONG(),
            )
        )
    return OperatorNode(
        inputs=tuple(inputs),
        kind="queryable-state",
        operator=LatestValueSink(descriptor),
        output_type=None,
        columns=Columns({}),
        given_uid=name,
    )


def nodes_of(*ends: SinkNode | OperatorNode) -> list[dict[str, Any]]:
    plan = ExecutionPlan.of(JobGraph.of_ends(ends), parallelism=4)
    found: list[dict[str, Any]] = json.loads(plan.as_json())["nodes"]
    return found


def test_a_plan_has_flinks_fields() -> None:
    read = source()
    sink = SinkNode(upstream=read, write=lambda rows, batch: None, name="print")
    first, second, third = nodes_of(latest(read, "last"), sink)
    assert first == {
        "id": 1,
        "type": "Source: k, v",
        "pact": "Data Source",
        "contents": "Source: k, v",
        "parallelism": 0,
    }
    assert second == {
        "id": 2,
        "type": "Sink: last",
        "pact": "Data Sink",
        "contents": "Sink: last",
        "parallelism": 4,
        "uid": "last",
        "keys": ["k"],
        "queryable_states": ["last"],
        "predecessors": [{"id": 1, "ship_strategy": "HASH", "side": "first"}],
    }
    assert (third["type"], third["pact"]) == ("Sink: print", "Data Sink")
    assert third["predecessors"] == [{"id": 1, "ship_strategy": "FORWARD", "side": "first"}]


def test_each_input_has_its_side_and_its_strategy() -> None:
    nodes = nodes_of(latest(source(), "last", broadcast=source()))
    assert [each["side"] for each in nodes[2]["predecessors"]] == ["first", "second"]
    assert [each["ship_strategy"] for each in nodes[2]["predecessors"]] == ["HASH", "BROADCAST"]


def test_a_union_and_a_partitioning_are_no_operators() -> None:
    united = frame("union", frame("shuffle", source()), source())
    read = frame("transform", frame("forward", united))
    spread = frame("project", frame("rebalance", frame("union", read)))
    nodes = nodes_of(SinkNode(upstream=spread, write=lambda rows, batch: None))
    assert [node["type"] for node in nodes] == [
        "Source: k, v",
        "Source: k, v",
        "transform",
        "Projection",
        "Sink: sink",
    ]
    assert [(each["id"], each["ship_strategy"]) for each in nodes[2]["predecessors"]] == [
        (1, "SHUFFLE"),
        (2, "FORWARD"),
    ]
    assert nodes[3]["predecessors"] == [{"id": 3, "ship_strategy": "REBALANCE", "side": "first"}]
    assert [node["parallelism"] for node in nodes] == [0, 0, 0, 4, 4]


def test_partitions_are_counted_where_they_are_known() -> None:
    one, two = source(), source()
    one.parallelism, two.parallelism = 1, 2
    united = frame("transform", frame("union", one, two))
    alone = frame("transform", frame("global", united))
    sink = SinkNode(upstream=alone, write=lambda rows, batch: None, description="the last one")
    nodes = nodes_of(sink)
    assert [node["parallelism"] for node in nodes] == [1, 2, 3, 1, 1]
    assert (nodes[4]["type"], nodes[4]["contents"]) == ("Sink: sink", "the last one")
    sink.parallelism = 5
    assert nodes_of(sink)[4]["parallelism"] == 5


def test_an_operator_has_its_own_parallelism_and_a_sink_that_of_its_input() -> None:
    operator = latest(source(), "last")
    operator.parallelism = 3
    operator.output_type = Types.LONG()
    sink = SinkNode(upstream=operator, write=lambda rows, batch: None)
    nodes = nodes_of(sink)
    assert [node["parallelism"] for node in nodes] == [0, 3, 3]
    assert [node["pact"] for node in nodes] == ["Data Source", "Operator", "Data Sink"]


def test_a_drawing_has_each_node_and_each_edge() -> None:
    operator = latest(source(), 'the "last"')
    plan = ExecutionPlan.of(JobGraph.of_ends([operator]), parallelism=4)
    quoted = "the #quot;last#quot;"
    assert plan.drawn("mermaid").splitlines() == [
        "flowchart LR",
        '    n1["Source: k, v"]',
        f'    n2[("Sink: {quoted}<br>4 subtasks by k<br>queryable: {quoted}")]',
        "    n1 -->|HASH| n2",
    ]
    dot = plan.drawn("dot")
    assert dot.startswith("digraph job {\n")
    assert 'n1 -> n2 [label="HASH"];' in dot
    assert '\\"last\\"\\n4 subtasks by k' in dot


def test_an_unknown_language_is_refused() -> None:
    plan = ExecutionPlan.of(JobGraph.of_ends([latest(source(), "last")]), parallelism=1)
    with pytest.raises(InvalidRequestError, match="mermaid, dot"):
        plan.drawn("svg")
