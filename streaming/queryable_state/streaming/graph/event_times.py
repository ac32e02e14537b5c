"""Streams of a job whose rows have the internal event-time column.

The outputs of functions have event time if their inputs have. Their rows have the column only if a
function or an order behind them reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.graph.nodes import (
    OperatorNode,
    SideOutputNode,
    TransformNode,
    WatermarkNode,
)
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
from queryable_state.streaming.runtime.operators.operators import (
    BroadcastProcess,
    KeyedBroadcastProcess,
    KeyedCoProcess,
    KeyedProcess,
    UnkeyedStep,
)
from queryable_state.streaming.runtime.windows.window_operator import WindowOperator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.graph.nodes import SinkNode, StreamNode
    from queryable_state.streaming.runtime.operators.operators import Operator

_WITH_CONTEXT = (
    KeyedProcess,
    KeyedCoProcess,
    KeyedBroadcastProcess,
    BroadcastProcess,
    WindowOperator,
)


@dataclass(frozen=True)
class EventTimes:
    """The streams of a graph whose rows have the internal column."""

    _carrying: frozenset[int]
    """Nodes by `id`."""

    @staticmethod
    def of(nodes: Iterable[StreamNode | SinkNode]) -> EventTimes:
        """The streams among the nodes of a graph, which are upstream first."""
        carrying: set[int] = set()
        for node in reversed(list(nodes)):
            if isinstance(node, WatermarkNode) and node.columns.has_internal_time:
                # The watermark is derived from the column, whether a function reads it or not.
                carrying.add(id(node))
            if id(node) in carrying or _reads(node):
                read = node.upstreams
            elif isinstance(node, OperatorNode):
                read = tuple(each.upstream for each in node.inputs if each.is_ordered_by_internal)
            else:
                continue
            carrying |= {id(each) for each in read if each.columns.has_internal_time}
        return EventTimes(frozenset(carrying))

    def in_rows_of(self, node: StreamNode) -> bool:
        """True if the rows of a stream have the column."""
        return id(node.upstream if isinstance(node, SideOutputNode) else node) in self._carrying

    def read_by(self, node: OperatorNode) -> bool:
        """True if an operator reads the timestamps of its elements, or passes them on."""
        return id(node) in self._carrying or _reads(node)


def _reads(node: StreamNode | SinkNode) -> bool:
    """True if the node reads the timestamps of its elements."""
    if isinstance(node, OperatorNode):
        return _has_context(node.operator)
    return isinstance(node, TransformNode) and node.step.takes_context


def _has_context(operator: Operator) -> bool:
    if isinstance(operator, UnkeyedStep):
        return operator.step.takes_context
    if isinstance(operator, WindowedAggregate):
        return operator.windows.is_event_time
    return isinstance(operator, _WITH_CONTEXT)
