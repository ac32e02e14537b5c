"""Numbers of reads of the frames of a graph, which decide what a batch must compute only once.

A frame is a source or the output of a stage. Nodes without a frame of their own (unions, side
outputs) are part of the plans that read them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.streaming.graph.nodes import OperatorNode, SideOutputNode, SourceNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.graph.stages import Stage


@dataclass
class FrameReads:
    """The reads of each frame in one batch of a graph."""

    sources: Counter[int] = field(default_factory=Counter)
    """Reads of a source, by the `id` of its node."""
    stages: Counter[int] = field(default_factory=Counter)
    """Reads of a stage, by its index."""
    renumbered: set[int] = field(default_factory=set)
    """Stages that a plan reads which may renumber their partitions."""

    @staticmethod
    def of(graph: JobGraph, stages: Sequence[Stage]) -> FrameReads:
        """Counts the reads of all stages and sinks of a graph."""
        reads = FrameReads()
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

    def unread(self, stages: Sequence[Stage]) -> list[int]:
        """Indexes of the stages that nothing reads, so that a batch must run them."""
        return [number for number in range(len(stages)) if not self.stages[number]]

    def _add(self, node: StreamNode, stage_of: dict[int, int], *, renumbers: bool) -> None:
        match node:
            case SourceNode():
                self.sources[id(node)] += 1
            case OperatorNode():
                self._add_stage(stage_of[id(node)], renumbers=renumbers)
            case SideOutputNode():
                self._add_stage(stage_of[id(node.upstream)], renumbers=renumbers)
            case _:
                for upstream in node.upstreams:
                    self._add(upstream, stage_of, renumbers=True)

    def _add_stage(self, number: int, *, renumbers: bool) -> None:
        self.stages[number] += 1
        if renumbers:
            self.renumbered.add(number)
