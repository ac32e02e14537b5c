"""DataFrames of the nodes of one graph."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from queryable_state.streaming.graph.frame_reads import FrameReads
from queryable_state.streaming.graph.nodes import (
    FrameNode,
    OperatorNode,
    SideOutputNode,
    SourceNode,
    TransformNode,
    WatermarkNode,
)
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.streaming.spark.plan.chain_frame import chained
from queryable_state.streaming.spark.plan.columns import stream_of
from queryable_state.streaming.spark.plan.event_time import with_internal_time, with_watermark

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows
    from queryable_state.streaming.runtime.stage import StageSpec
    from queryable_state.streaming.spark.plan.stage_compiler import StageCompiler


class Frames:
    """DataFrames of the nodes of one graph, each created once.

    With `batch`, the rows of one batch by the `id` of the nodes in `JobGraph.supplied`, frames with
    several readers are persisted, so that their operators run once. `starting` has the uids of the
    operators that read their initial state in this batch. With `marked`, each
    stream in `JobGraph.supplied` is united with a marker source, so that every operator runs in a
    batch without input.

    The tasks of a stage must end at a shuffle: a `coalesce`, `union` or `limit` in the same Spark
    stage would renumber its partitions, which identify its subtasks, or skip some. `of` is for our
    own plans, which shuffle or read everything; `for_any_plan` adds the shuffle.
    """

    def __init__(
        self,
        compiler: StageCompiler,
        graph: JobGraph,
        batch: Mapping[int, DataFrame] | None = None,
        *,
        starting: Container[str] = (),
        marked: bool = False,
    ) -> None:
        self._marked = {id(node) for node in graph.supplied} if marked else set()
        self._compiler = compiler
        self._stages = compiler.stages(graph, starting)
        self._stage_of = {
            id(node): number
            for number, stage in enumerate(self._stages)
            for node in stage.operators
        }
        self._batch = batch
        self._graph = graph
        self._sources: dict[int, DataFrame] = {}
        self._outputs: dict[int, tuple[DataFrame, StageSpec]] = {}
        self._chains: dict[int, tuple[DataFrame, TaggedRows | None]] = {}
        self._persisted: list[DataFrame] = []

    @cached_property
    def reads(self) -> FrameReads:
        """The reads of each frame in a batch."""
        return FrameReads.of(self._graph, self._stages)

    @property
    def has_persisted(self) -> bool:
        """True if a frame is persisted."""
        return bool(self._persisted)

    def unread_stages(self) -> list[DataFrame]:
        """The outputs of the stages that nothing reads, for an action that reads every row."""
        return [self._output(number)[0] for number in self.reads.unread(self._stages)]

    def every_stage(self) -> list[DataFrame]:
        """The outputs of all stages, for actions that read every row."""
        return [self._output(number)[0] for number in range(len(self._stages))]

    def for_any_plan(self, node: StreamNode) -> DataFrame:
        """The visible columns of a node, for a plan that may renumber partitions."""
        frame = self._of(node, renumbers=True)
        if self._graph.event_times.in_rows_of(node):
            frame = frame.drop(EVENT_TIME_COLUMN)
        return frame

    def release(self) -> None:
        """Unpersists all persisted DataFrames."""
        while self._persisted:
            self._persisted.pop().unpersist()

    def _of(self, node: StreamNode, renumbers: bool) -> DataFrame:
        match node:
            case SourceNode():
                return self._source(node)
            case WatermarkNode():
                return self._watermarked(node)
            case FrameNode():
                return node.apply(*(self._applied_to(each, node) for each in node.upstreams))
            case OperatorNode():
                return self._part(node, 0, renumbers=renumbers)
            case TransformNode():
                return self._chain_part(node, 0, renumbers=renumbers)
            case SideOutputNode(upstream=OperatorNode() as upstream):
                return self._part(upstream, node.index + 1, renumbers=renumbers)
            case SideOutputNode(upstream=TransformNode() as upstream):
                return self._chain_part(upstream, node.index + 1, renumbers=renumbers)
        raise AssertionError(node)

    def _applied_to(self, upstream: StreamNode, node: FrameNode) -> DataFrame:
        """The DataFrame of an upstream for the transformation of a node."""
        if not self._graph.event_times.in_rows_of(node):
            return self.for_any_plan(upstream)
        return with_internal_time(self._of(upstream, renumbers=True), upstream.columns)

    def in_plan(self, node: SourceNode | WatermarkNode) -> DataFrame:
        """The rows that a batch supplies for a stream, as part of a streaming plan."""
        return self._of(node, renumbers=True)

    def _source(self, node: SourceNode) -> DataFrame:
        if node.is_initial:
            return node.dataframe
        if self._batch is None:
            return self._in_plan(node, node.dataframe)
        return self._supplied(node, self._batch)

    def _watermarked(self, node: WatermarkNode) -> DataFrame:
        if self._batch is not None:
            return self._supplied(node, self._batch)
        frame = self._of(node.upstream, renumbers=True)
        return self._in_plan(node, with_watermark(frame, node.columns, node.delay_ms))

    def _in_plan(self, node: SourceNode | WatermarkNode, frame: DataFrame) -> DataFrame:
        """The rows of a stream in a streaming plan, with the marker source that it needs."""
        if id(node) not in self._marked:
            return frame
        return self._compiler.with_marker(frame, is_bounded=self._graph.is_bounded)

    def _supplied(
        self, node: SourceNode | WatermarkNode, batch: Mapping[int, DataFrame]
    ) -> DataFrame:
        """The rows of a batch."""
        if id(node) not in self._sources:
            frame = batch[id(node)]
            if self.reads.sources[id(node)] > 1:
                self._persist(frame)
            self._sources[id(node)] = frame
        return self._sources[id(node)]

    def _chain_part(self, last: TransformNode, output: int, *, renumbers: bool) -> DataFrame:
        """The rows of one output of a chain."""
        chain = self.reads.chain_of[id(last)]
        if id(last) not in self._chains:
            renumbers = chain.renumbers(renumbers)
            frame, tagged = chained(chain, [self._of(each, renumbers) for each in chain.upstreams])
            if self._batch is not None and self.reads.chains[id(last)] > 1:
                self._persist(frame)
            self._chains[id(last)] = frame, tagged
        frame, tagged = self._chains[id(last)]
        return frame if tagged is None else stream_of(frame, chain.parts.index(output), tagged)

    def _part(self, node: OperatorNode, output: int, *, renumbers: bool) -> DataFrame:
        """The rows of one output of an operator."""
        number = self._stage_of[id(node)]
        frame, spec = self._output(number)
        tagged = spec.outputs
        if tagged is not None:
            position = self._stages[number].operators.index(node)
            frame = stream_of(frame, spec.parts.index((position, output)), tagged)
        if renumbers and not self._is_shuffled(number):
            return self._shuffled(node, frame)
        return frame

    def _output(self, number: int) -> tuple[DataFrame, StageSpec]:
        """The rows of all outputs of a stage, and its specification."""
        if number not in self._outputs:
            stage = self._stages[number]
            frame, spec = self._compiler.apply(stage, self._of)
            if self._is_persisted(number):
                if self._is_shuffled(number):
                    frame = self._shuffled(stage.operators[0], frame)
                self._persist(frame)
            self._outputs[number] = frame, spec
        return self._outputs[number]

    def _is_persisted(self, number: int) -> bool:
        return self._batch is not None and self.reads.stages[number] > 1

    def _is_shuffled(self, number: int) -> bool:
        """True if the output of a stage is shuffled once, for all its readers."""
        return self._is_persisted(number) and number in self.reads.renumbered

    def _shuffled(self, node: OperatorNode, frame: DataFrame) -> DataFrame:
        """Shuffles each subtask's rows, in order, to the partition with the subtask's number."""
        return frame.repartitionById(self._compiler.parallelism(node), F.spark_partition_id())

    def _persist(self, frame: DataFrame) -> None:
        frame.persist()
        self._persisted.append(frame)
