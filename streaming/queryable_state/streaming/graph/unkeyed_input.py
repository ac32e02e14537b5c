"""A stream without keys as the input of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode
from queryable_state.streaming.runtime.operators.operators import UnkeyedStep

if TYPE_CHECKING:
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.runtime.stateless.steps import Step
    from queryable_state.wire.schema.types import TypeInfo


def unkeyed_input(node: StreamNode, purpose: str, *, is_broadcast: bool = False) -> OperatorInput:
    """A stream whose elements have no key, as an input of an operator; raises
    InvalidRequestError, naming `purpose`, if a column has no type."""
    names = node.columns.names
    return OperatorInput(
        upstream=node,
        keys=None,
        is_broadcast=is_broadcast,
        value_columns=names,
        value_type=node.columns.element_type(names, purpose),
    )


def unkeyed_operator(node: StreamNode, kind: str, step: Step, output: TypeInfo) -> OperatorNode:
    """The operator of a function with operator state over the elements of a stream."""
    return OperatorNode(
        inputs=(unkeyed_input(node, kind),),
        kind=kind,
        operator=UnkeyedStep(step),
        output_type=output,
        columns=Columns.of_output(output).with_timestamps_of(node.columns),
    )
