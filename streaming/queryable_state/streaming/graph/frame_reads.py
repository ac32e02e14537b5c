"""Numbers of reads of the frames of a graph, which decide what a batch must compute only once.

A frame is a source, or the output of a stage or a chain. Nodes without a frame of their own
(unions, side outputs) are part of the plans that read them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.streaming.graph.chains import chains_of
from queryable_state.streaming.graph.nodes import (
    OperatorNode,
    SideOutputNode,
    SourceNode,
    TransformNode,
    WatermarkNode,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.graph.chains import Chain
    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.graph.stages import Stage


@dataclass
class FrameReads:
    """The reads of each frame in one batch of a graph."""

    sources: Counter[int] = field(default_factory=Counter)
    """Reads of a stream that a batch supplies, by the `id` of its node: a source, or a stream with
    a watermark."""
    stages: Counter[int] = field(default_factory=Counter)
    """Reads of a stage, by its index."""
    chains: Counter[int] = field(default_factory=Counter)
    """Reads of a chain, by the `id` of its last function."""
    renumbered: set[int] = field(default_factory=set)
    """Stages that a plan reads which may renumber their partitions."""
    chain_of: dict[int, Chain] = field(default_factory=dict)
    """The chains, by the `id` of their last function."""

    @staticmethod
    def of(graph: JobGraph, stages: Sequence[Stage]) -> FrameReads:
        """Counts the reads of all stages and sinks of a graph."""
        reads = FrameReads(chain_of=chains_of(graph))
        stage_of = {id(node): i for i, stage in enumerate(stages) for node in stage.operators}
        for stage in stages:
            upstreams = {
                (id(each.upstream), each.is_broadcast): each.upstream for each in stage.inputs
            }
            renumbers = len(upstreams) > 1
            for (_, is_broadcast), upstream in upstreams.items():
                reads._add(upstream, stage_of, renumbers=renumbers or is_broadcast)
        for sink in graph.sinks:
            reads._add(sink.upstream, stage_of, renumbers=True)
        return reads

    @property
    def repeats(self) -> bool:
        """True if one plan of all ends would run a stage or a chain several times."""
        return max((*self.stages.values(), *self.chains.values()), default=0) > 1

    def unread(self, stages: Sequence[Stage]) -> list[int]:
        """Indexes of the stages that nothing reads, so that a batch must run them."""
        return [number for number in range(len(stages)) if not self.stages[number]]

    def _add(self, node: StreamNode, stage_of: dict[int, int], *, renumbers: bool) -> None:
        match node:
            case SourceNode() | WatermarkNode():
                self.sources[id(node)] += 1
            case OperatorNode():
                self._add_stage(stage_of[id(node)], renumbers=renumbers)
            case SideOutputNode(upstream=OperatorNode() as operator):
                self._add_stage(stage_of[id(operator)], renumbers=renumbers)
            case TransformNode() | SideOutputNode(upstream=TransformNode()):
                self._add_chain(
                    node.upstream if isinstance(node, SideOutputNode) else node,
                    stage_of,
                    renumbers=renumbers,
                )
            case _:
                for upstream in node.upstreams:
                    self._add(upstream, stage_of, renumbers=True)

    def _add_chain(self, last: StreamNode, stage_of: dict[int, int], *, renumbers: bool) -> None:
        """Adds a read of a chain, and at the first one the reads of its upstreams."""
        self.chains[id(last)] += 1
        if self.chains[id(last)] > 1:
            return
        chain = self.chain_of[id(last)]
        for upstream in chain.upstreams:
            self._add(upstream, stage_of, renumbers=chain.renumbers(renumbers))

    def _add_stage(self, number: int, *, renumbers: bool) -> None:
        self.stages[number] += 1
        if renumbers:
            self.renumbered.add(number)
