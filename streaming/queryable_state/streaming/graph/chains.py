"""Chains of a job: adjacent functions without state that run in one Python task.

A function joins the chain of its upstream if it is the only reader of it. So a function with
several readers ends its chain, and each batch runs it once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.graph.nodes import SideOutputNode, TransformNode

if TYPE_CHECKING:
    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import StreamNode


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Functions in one task, the first one first."""

    nodes: tuple[TransformNode, ...]
    parts: tuple[int, ...]
    """Numbers of the last function's outputs that are read: 0 for the main output, i + 1 for side
    output i."""
    is_shared: bool
    """True if the chain has several readers."""
    emits_event_time: bool = False
    """True if the rows of the outputs have the internal event-time column."""

    @property
    def upstreams(self) -> tuple[StreamNode, ...]:
        """The streams that the chain reads."""
        return self.nodes[0].upstreams

    @property
    def last(self) -> TransformNode:
        """The function whose outputs are the chain's."""
        return self.nodes[-1]

    @property
    def reads_event_time(self) -> bool:
        """True if a function reads the timestamps of the elements, or the outputs have them."""
        return self.emits_event_time or any(node.step.takes_context for node in self.nodes)

    def renumbers(self, renumbers: bool) -> bool:
        """True if the plan that reads the chain's upstreams may renumber their partitions, or run
        their tasks only in part; `renumbers` is true if the reader of the chain does."""
        return renumbers or self.is_shared or len(self.upstreams) > 1


def chains_of(graph: JobGraph) -> dict[int, Chain]:
    """The chains of a graph, by the `id` of their last function."""
    readers: Counter[int] = Counter(
        id(upstream) for node in graph.nodes for upstream in node.upstreams
    )
    chains: dict[int, tuple[TransformNode, ...]] = {}
    for node in graph.nodes:
        if not isinstance(node, TransformNode):
            continue
        nodes: tuple[TransformNode, ...] = (node,)
        if len(node.upstreams) == 1 and readers[id(node.upstreams[0])] == 1:
            nodes = (*chains.pop(id(node.upstreams[0]), ()), node)
        chains[id(node)] = nodes
    return {
        last: Chain(
            nodes=nodes,
            parts=_parts(nodes[-1], graph),
            is_shared=readers[last] > 1,
            emits_event_time=graph.event_times.in_rows_of(nodes[-1]),
        )
        for last, nodes in chains.items()
    }


def _parts(node: TransformNode, graph: JobGraph) -> tuple[int, ...]:
    parts = {
        each.index + 1 if isinstance(each, SideOutputNode) else 0
        for each in graph.nodes
        if any(upstream is node for upstream in each.upstreams)
    }
    return tuple(sorted(parts)) or (0,)
