"""The query of a graph: its operators in the plan, or run by a function for each batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import inheritable_thread_target
from pyspark.sql import functions as F

from queryable_state.streaming.spark.plan.batch_guard import BatchGuard, query_id_of
from queryable_state.streaming.spark.plan.columns import column
from queryable_state.streaming.spark.plan.frames import Frames
from queryable_state.streaming.spark.plan.initial_reads import InitialReads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.spark.plan.stage_compiler import StageCompiler

_SOURCE = "source"


class BatchRun:
    """The query that runs all ends of a graph in each batch."""

    def __init__(self, compiler: StageCompiler, graph: JobGraph) -> None:
        self._compiler = compiler
        self._graph = graph
        self._initial = InitialReads(compiler, graph)

    def in_plan(self) -> DataStreamWriter:
        """A query with all operators in its plan, for a graph that one action runs."""
        frames = Frames(self._compiler, self._graph, marked=self._graph.needs_clock)
        if not self._graph.sinks:
            (whole,) = frames.unread_stages()
            return whole.writeStream.format("noop")
        (sink,) = self._graph.sinks
        write = sink.write

        def run_sink(batch: DataFrame, batch_id: int) -> None:
            write(batch, batch_id)
            if not self._is_sealed(batch, batch_id):
                _run_whole(batch)

        stream = frames.for_any_plan(sink.upstream)
        return stream.writeStream.foreachBatch(self._guarded(run_sink))

    def in_batches(self) -> DataStreamWriter:
        """A query that reads the sources, and applies the operators to each batch."""
        graph, supplied = self._graph, self._graph.supplied
        in_plan = Frames(self._compiler, graph)
        plan = [in_plan.in_plan(node) for node in supplied]

        def run_batch(batch: DataFrame, batch_id: int) -> None:
            rows = _split(batch, supplied, plan)
            starting = self._initial.starting(batch_id, lambda: query_id_of(batch))
            frames = Frames(self._compiler, graph, rows, starting=starting)
            try:
                _run_all(frames.unread_stages(), side_by_side=not frames.has_persisted)
                for sink in graph.sinks:
                    sink.write(frames.for_any_plan(sink.upstream), batch_id)
                if graph.sinks and not self._is_sealed(batch, batch_id):
                    _run_all(frames.every_stage(), side_by_side=False)
            finally:
                frames.release()

        whole = _joined(plan)
        if graph.needs_clock:
            whole = self._compiler.with_marker(whole, is_bounded=graph.is_bounded)
        return whole.writeStream.foreachBatch(self._guarded(run_batch))

    def _guarded(self, run: Callable[[DataFrame, int], None]) -> BatchGuard:
        return BatchGuard(run, self._compiler.is_stopping)

    def _is_sealed(self, batch: DataFrame, batch_id: int) -> bool:
        """True if the sinks' functions have run every operator of the job.

        A function may run no action, or one from whose plan Spark removes operators.
        """
        query_id = query_id_of(batch)
        return query_id is not None and self._compiler.is_sealed(self._graph, query_id, batch_id)


def _run_whole(frame: DataFrame) -> None:
    """Runs all tasks of a DataFrame and discards the rows."""
    frame.write.format("noop").mode("overwrite").save()


def _run_all(frames: Sequence[DataFrame], *, side_by_side: bool) -> None:
    """Runs DataFrames in threads, or one after another."""
    if len(frames) < 2 or not side_by_side:
        for frame in frames:
            _run_whole(frame)
        return
    session = frames[0].sparkSession
    with ThreadPoolExecutor(len(frames), thread_name_prefix="queryable-state-branch") as pool:
        # Spark's tasks read the batch from the thread's local properties.
        running = [
            pool.submit(inheritable_thread_target(session)(_run_whole), frame) for frame in frames
        ]
    for each in running:
        each.result()


def _joined(frames: Sequence[DataFrame]) -> DataFrame:
    """One DataFrame of all: each row has the index of its DataFrame, and the columns of this one in
    a struct of its own."""
    if len(frames) == 1:
        return frames[0]
    joined = []
    for number, frame in enumerate(frames):
        structs = [
            F.struct(*map(column, frame.columns))
            if place == number
            else F.lit(None).cast(other.schema)
            for place, other in enumerate(frames)
        ]
        joined.append(
            frame.select(
                F.lit(number).alias(_SOURCE),
                *(each.alias(_struct(place)) for place, each in enumerate(structs)),
            )
        )
    return reduce(lambda one, other: one.union(other), joined)


def _split(
    batch: DataFrame, nodes: Sequence[StreamNode], frames: Sequence[DataFrame]
) -> dict[int, DataFrame]:
    """The rows of each node in a batch of `_joined`, by the `id` of the node."""
    if len(nodes) == 1:
        return {id(nodes[0]): batch}
    return {
        id(node): batch.where(F.col(_SOURCE) == number).select(
            *(column(_struct(number)).getField(name).alias(name) for name in frame.columns)
        )
        for number, (node, frame) in enumerate(zip(nodes, frames, strict=True))
    }


def _struct(number: int) -> str:
    return f"source_{number}"
