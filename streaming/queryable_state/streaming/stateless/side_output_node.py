"""Node of a side output of a process function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import OperatorNode, SideOutputNode, TransformNode
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
from queryable_state.streaming.runtime.operators.operators import (
    BroadcastProcess,
    KeyedBroadcastProcess,
    KeyedCoProcess,
    KeyedProcess,
    UnkeyedStep,
)
from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.stateless.output_tag import OutputTag

_WITH_SIDE_OUTPUTS = (
    KeyedProcess,
    KeyedCoProcess,
    KeyedBroadcastProcess,
    BroadcastProcess,
    UnkeyedStep,
    WindowOperator,
    WindowedAggregate,
)


def side_output_node(node: StreamNode, output_tag: OutputTag, name: str) -> SideOutputNode:
    """The side output of a tag; `name` is the stream's in errors.

    Raises InvalidRequestError if the node has no side outputs, or the tag has another type than
    before.
    """
    emits = isinstance(node, TransformNode) and "process" in node.kind
    if isinstance(node, OperatorNode):
        emits = isinstance(node.operator, _WITH_SIDE_OUTPUTS)
    if not emits:
        raise InvalidRequestError(
            f"get_side_output({output_tag!r}): only the stream that process() returns has side "
            f"outputs, not {name}"
        )
    assert isinstance(node, OperatorNode | TransformNode)
    if output_tag not in node.side_outputs:
        node.side_outputs = (*node.side_outputs, output_tag)
    index = node.side_outputs.index(output_tag)
    if node.side_outputs[index].type_info != output_tag.type_info:
        raise InvalidRequestError(
            f"get_side_output({output_tag!r}): the tag has two types: "
            f"{node.side_outputs[index]!r} was given before"
        )
    inputs = (each.columns for each in node.upstreams)
    columns = Columns.of_output(output_tag.type_info).with_timestamps_of(*inputs)
    if isinstance(node, OperatorNode) and isinstance(
        node.operator, WindowOperator | WindowedAggregate
    ):
        columns = columns.with_internal_time()
    return SideOutputNode(upstream=node, index=index, columns=columns)
