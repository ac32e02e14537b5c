"""Compiler of job graphs to Spark DataFrames and queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.graph.frame_reads import FrameReads
from queryable_state.streaming.graph.nodes import WatermarkNode
from queryable_state.streaming.spark.plan.batch_run import BatchRun
from queryable_state.streaming.spark.plan.frames import Frames
from queryable_state.streaming.spark.plan.stage_compiler import StageCompiler
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from queryable_state.server.coordinator import OperatorLayout
    from queryable_state.server.settings.environment_settings import EnvironmentSettings
    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import OperatorNode, StreamNode
    from queryable_state.streaming.spark.application import SparkApplication


class Compiler:
    """Compiles graphs to DataFrames of one Spark application."""

    def __init__(
        self,
        application: SparkApplication,
        settings: EnvironmentSettings,
        job_name: str,
        config_id: str,
        kept_parallelism: Mapping[str, int] | None = None,
    ) -> None:
        """`kept_parallelism`: subtasks of operators that do not have those of the settings."""
        self._application = application
        self._job_name = job_name
        self._stages = StageCompiler(
            application, settings, job_name, config_id, kept_parallelism or {}
        )

    def dataframe(self, node: StreamNode, graph: JobGraph) -> DataFrame:
        """A stream as a streaming DataFrame that any plan may follow.

        Raises InvalidRequestError if an operator has initial state, which no plan of a streaming
        query can read.
        """
        for operator in graph.operators:
            if any(each.is_initial for each in operator.inputs):
                raise InvalidRequestError(
                    f"to_dataframe(): operator {operator.name!r} has initial_state, which only a "
                    "job of execute() reads: end the stream with add_sink() and call execute()"
                )
        self._application.observe(graph.sources[0].dataframe.sparkSession)
        return Frames(self._stages, graph, marked=graph.needs_clock).for_any_plan(node)

    def writer(
        self,
        graph: JobGraph,
        *,
        checkpoint_location: str | None,
        trigger: Mapping[str, Any],
        output_mode: str,
    ) -> DataStreamWriter:
        """A writer of a graph; each `start` of it starts one query."""
        self._application.observe(graph.sources[0].dataframe.sparkSession)
        run = BatchRun(self._stages, graph)
        query = run.in_plan() if self.is_native(graph) else run.in_batches()
        writer = query.queryName(self._job_name).outputMode(output_mode)
        if checkpoint_location is not None:
            writer = writer.option("checkpointLocation", checkpoint_location)
        return writer.trigger(**trigger) if trigger else writer

    def max_parallelism(self, node: OperatorNode) -> int:
        """Number of key groups of an operator's states."""
        return self._stages.max_parallelism(node)

    def layout(self, node: OperatorNode) -> OperatorLayout:
        """The operator's layout, which the coordinator needs before the first task."""
        return self._stages.layout(node)

    def is_native(self, graph: JobGraph) -> bool:
        """True if the operators of a graph are in the plan of its query.

        That is so if one action runs all of the graph and no function twice, and no input is
        static, which Spark cannot unite with a stream. Otherwise a `foreachBatch` function applies
        the operators, and the plan contains only the sources, and what is before a watermark.
        """
        stages = self._stages.stages(graph)
        reads = FrameReads.of(graph, stages)
        actions = len(graph.sinks) + len(reads.unread(stages))
        if reads.repeats or graph.initial_sources or actions != 1:
            return False
        once = [reads.sources[id(node)] == 1 for node in graph.supplied]
        if graph.needs_clock:
            # One marker source, which comes last in the offsets.
            return once == [True]
        watermarked = [isinstance(node, WatermarkNode) for node in graph.supplied]
        return all(single for single, timed in zip(once, watermarked, strict=True) if timed)
