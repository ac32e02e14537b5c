"""Compiler of stages to DataFrames of one Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator import OperatorLayout
from queryable_state.streaming.graph.stages import stages_of
from queryable_state.streaming.runtime.operators.spec import OperatorSpec
from queryable_state.streaming.runtime.stage import StageSpec
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.spark.own_functions import with_own_functions
from queryable_state.streaming.spark.plan.columns import mapped_in_arrow
from queryable_state.streaming.spark.plan.stage_frame import StageRows
from queryable_state.streaming.spark.sources.marker_source import with_marker
from queryable_state.streaming.spark.types import schema
from queryable_state.streaming.spark.worker.task import StageFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping
    from collections.abc import Set as AbstractSet

    from pyspark.sql import DataFrame

    from queryable_state.server.settings.environment_settings import EnvironmentSettings
    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import OperatorNode, StreamNode
    from queryable_state.streaming.graph.stages import Stage
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.runtime.states.input_spec import InputSpec
    from queryable_state.streaming.spark.application import SparkApplication


class StageCompiler:
    """Compiles the stages of a job."""

    def __init__(
        self,
        application: SparkApplication,
        settings: EnvironmentSettings,
        job_name: str,
        config_id: str,
        kept_parallelism: Mapping[str, int],
    ) -> None:
        self._application = application
        self._settings = settings
        self._job_name = job_name
        self._config_id = config_id
        self._kept_parallelism = kept_parallelism

    def max_parallelism(self, node: OperatorNode) -> int:
        """Number of key groups of an operator's states."""
        return node.max_parallelism or self._settings.max_parallelism

    def parallelism(self, node: OperatorNode) -> int:
        """Number of subtasks of an operator."""
        kept = self._kept_parallelism.get(node.uid, self._settings.parallelism)
        return node.parallelism or kept

    def layout(self, node: OperatorNode) -> OperatorLayout:
        """The operator's layout, which the coordinator needs before the first task."""
        return OperatorLayout(
            uid=node.uid,
            parallelism=self.parallelism(node),
            max_parallelism=self.max_parallelism(node),
        )

    def with_marker(self, frame: DataFrame, *, is_bounded: bool) -> DataFrame:
        """The rows of a streaming DataFrame, whose query gets batches without input as it needs
        them; see `marker_source`."""
        application = self._application
        return with_marker(
            frame,
            application.coordinator_address,
            application.secret_file,
            application.tls.tls_for_calls,
            is_bounded=is_bounded,
        )

    def stages(self, graph: JobGraph, starting: Container[str] = ()) -> list[Stage]:
        """The stages of a graph, upstream stages first; see `stages_of`."""
        return stages_of(
            graph,
            lambda node: (self.parallelism(node), self.max_parallelism(node)),
            starting=starting,
        )

    def continued(self, graph: JobGraph, query_id: bytes, batch_id: int) -> AbstractSet[str]:
        """The operators of a graph that have state from before a batch, which is now to run."""
        coordinator = self._application.coordinator
        # Before the batch begins, the coordinator must know the operators of the run.
        coordinator.run_started(query_id, self._config_id, [*map(self.layout, graph.operators)])
        timeout_s = self._settings.task_timeout_s
        return coordinator.continued(query_id, batch_id, self._config_id, timeout_s)

    def is_sealed(self, graph: JobGraph, query_id: bytes, batch_id: int) -> bool:
        """True if every operator of a graph has sealed all subtasks of a batch."""
        layouts = map(self.layout, graph.operators)
        return self._application.coordinator.is_sealed(query_id, batch_id, layouts)

    def is_stopping(self, query_id: bytes) -> bool:
        """True if a query is being stopped, or was stopped."""
        return self._application.adapter.is_stopping(query_id)

    def apply(
        self, stage: Stage, frame_of: Callable[[StreamNode, bool], DataFrame]
    ) -> tuple[DataFrame, StageSpec]:
        """Applies a stage: one shuffle by subtask, then the tasks with all its operators.

        Returns the output rows and the specification with their layout. See `StageRows` for
        `frame_of`.
        """
        parallelism = self.parallelism(stage.operators[0])
        max_parallelism = self.max_parallelism(stage.operators[0])
        rows = StageRows(stage, parallelism=parallelism, max_parallelism=max_parallelism)
        spec = StageSpec(
            operators=tuple(
                self._operator(node, operator, rows.inputs_of(node), emits_event_time=timed)
                for node, operator, timed in zip(
                    stage.operators,
                    with_own_functions(node.operator for node in stage.operators),
                    stage.emits_event_time,
                    strict=True,
                )
            ),
            inputs=rows.layout,
        )
        task = StageFunction(
            spec, self._application.server_template, self._application.application_id
        )
        frame = mapped_in_arrow(rows.shuffled(frame_of), task, schema(spec.output_fields))
        return frame, spec

    def _operator(
        self,
        node: OperatorNode,
        operator: Operator,
        inputs: tuple[InputSpec, ...],
        *,
        emits_event_time: bool,
    ) -> OperatorSpec:
        return OperatorSpec(
            uid=node.uid,
            name=node.name,
            depth=node.depth,
            parallelism=self.parallelism(node),
            max_parallelism=self.max_parallelism(node),
            job_name=self._job_name,
            inputs=inputs,
            key_type=node.key_type,
            operator=operator,
            output_type=node.output_type,
            side_outputs=node.side_outputs,
            emits_event_time=emits_event_time,
            pickled_keys=node.keys is not None and node.keys.is_pickled,
            secret=self._application.secret,
            coordinator_address=self._application.coordinator_address,
            config_id=self._config_id,
            settings=RuntimeSettings.from_settings(self._settings),
        )
