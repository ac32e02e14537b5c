"""Declarations of an environment's streams for its next job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.streaming.graph.declared_job import NextJob
    from queryable_state.streaming.graph.nodes import OperatorNode, SinkNode, TransformNode


class Declarations:
    """Part of the environment that its streams call."""

    _next: NextJob

    def _add_operator(self, node: OperatorNode) -> OperatorNode:
        self._next.declared.add_operator(node)
        return node

    def _add_sink(self, node: SinkNode) -> None:
        self._next.declared.sinks.append(node)

    def _add_function(self, node: TransformNode) -> None:
        self._next.declared.functions.append(node)
