"""Compiler of job graphs to Spark DataFrames and queries."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from queryable_state.server.coordinator import OperatorLayout
from queryable_state.streaming.graph.elements import free_name
from queryable_state.streaming.graph.job_graph import OperatorNode, SinkNode, SourceNode
from queryable_state.streaming.runtime.columns.row_check import GROUP_BITS
from queryable_state.streaming.runtime.operators.spec import OperatorSpec
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.spark.types import data_type, is_hashable, schema
from queryable_state.streaming.spark.worker.task import SubtaskFunction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from queryable_state.streaming.config.settings import EnvironmentSettings
    from queryable_state.streaming.graph.job_graph import JobGraph, StreamNode
    from queryable_state.streaming.spark.application import SparkApplication

_log = logging.getLogger("queryable_state.streaming")


class Compiler:
    """Compiles graphs to DataFrames of one Spark application."""

    def __init__(
        self,
        application: SparkApplication,
        settings: EnvironmentSettings,
        job_name: str,
        config_id: str,
    ) -> None:
        self._application = application
        self._settings = settings
        self._job_name = job_name
        self._config_id = config_id

    def dataframe(self, node: StreamNode, graph: JobGraph) -> DataFrame:
        """A stream as a streaming DataFrame that any plan may follow."""
        self._application.observe(graph.sources[0].dataframe.sparkSession)
        return _Frames(self, graph, {}).for_any_plan(node)

    def writer(
        self,
        graph: JobGraph,
        *,
        checkpoint_location: str | None,
        trigger: Mapping[str, Any],
        output_mode: str,
    ) -> DataStreamWriter:
        """A writer of a graph with one source; each `start` of it starts one query."""
        self._application.observe(graph.sources[0].dataframe.sparkSession)
        writer = self._writer(graph).queryName(self._job_name).outputMode(output_mode)
        if checkpoint_location is not None:
            writer = writer.option("checkpointLocation", checkpoint_location)
        return writer.trigger(**trigger) if trigger else writer

    def max_parallelism(self, node: OperatorNode) -> int:
        """Number of key groups of an operator's states."""
        return node.max_parallelism or self._settings.max_parallelism

    def parallelism(self, node: OperatorNode) -> int:
        """Number of subtasks of an operator."""
        return node.parallelism or self._settings.parallelism

    def layout(self, node: OperatorNode) -> OperatorLayout:
        """The operator's layout, which the coordinator needs before the first task."""
        return OperatorLayout(
            uid=node.uid,
            parallelism=self.parallelism(node),
            max_parallelism=self.max_parallelism(node),
        )

    def is_native(self, graph: JobGraph) -> bool:
        """True if the operators of a graph are in the plan of its query.

        Otherwise a `foreachBatch` function applies them, and the plan contains only the source.
        """
        return len(graph.ends) == 1

    def _writer(self, graph: JobGraph) -> DataStreamWriter:
        """The query of a graph with one end; else a `foreachBatch` with a branch per end."""
        if self.is_native(graph):
            end = graph.ends[0]
            frames = _Frames(self, graph, {})
            if not isinstance(end, SinkNode):
                return frames.of(end).writeStream.format("noop")
            write = end.write

            def run_sink(batch: DataFrame, batch_id: int) -> None:
                write(batch, batch_id)
                if not self._is_sealed(graph, batch, batch_id):
                    _run_whole(batch)

            return frames.for_any_plan(end.upstream).writeStream.foreachBatch(run_sink)
        (source,) = graph.sources

        def run_batch(batch: DataFrame, batch_id: int) -> None:
            frames = _Frames(self, graph, {id(source): batch}, persist=True)
            try:
                for end in graph.ends:
                    if isinstance(end, SinkNode):
                        end.write(frames.for_any_plan(end.upstream), batch_id)
                    else:
                        _run_whole(frames.of(end))
                sinks = [end.upstream for end in graph.ends if isinstance(end, SinkNode)]
                if sinks and not self._is_sealed(graph, batch, batch_id):
                    for node in sinks:
                        _run_whole(frames.of(node))
            finally:
                frames.release()

        return source.dataframe.writeStream.foreachBatch(run_batch)

    def _is_sealed(self, graph: JobGraph, batch: DataFrame, batch_id: int) -> bool:
        """True if the sinks' functions have run every operator of the job.

        A function may run no action, or one from whose plan Spark removes operators.
        """
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not query_id:
            return False
        layouts = map(self.layout, graph.operators)
        return self._application.coordinator.is_sealed(uuid.UUID(query_id).bytes, batch_id, layouts)

    def apply(self, node: OperatorNode, upstream: DataFrame) -> DataFrame:
        """Applies an operator: key columns, key group, shuffle by subtask, operator tasks."""
        keyed = _with_key(node, upstream)
        parallelism = self.parallelism(node)
        max_parallelism = self.max_parallelism(node)
        needed = tuple(
            dict.fromkeys((*node.keys.columns, *node.value_columns, *node.order_columns))
        )
        check = free_name("__check", needed)
        split = free_name("__split", needed) if node.order_columns else ""
        group = f"(`{check}` & {GROUP_BITS})"
        shuffled = keyed.select(
            *map(_column, needed),
            *([F.spark_partition_id().alias(split)] if split else []),
            _row_check(node, max_parallelism).alias(check),
        ).repartitionById(
            parallelism,
            F.expr(f"cast({group} * {parallelism} div {max_parallelism} as int)"),
        )
        spec = OperatorSpec(
            uid=node.uid,
            name=node.name,
            depth=node.upstream.depth,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            job_name=self._job_name,
            key_columns=node.keys.columns,
            key_type=node.keys.key_type,
            check_column=check,
            value_columns=node.value_columns,
            value_type=node.value_type,
            order=node.order,
            split_column=split,
            operator=node.operator,
            output_type=node.output_type,
            secret=self._application.secret,
            coordinator_address=self._application.coordinator_address,
            config_id=self._config_id,
            settings=RuntimeSettings(
                task_timeout_s=self._settings.task_timeout_s,
                key_bytes=self._settings.key_bytes,
                value_bytes=self._settings.value_bytes,
            ),
        )
        task = SubtaskFunction(
            spec, self._application.server_template, self._application.application_id
        )
        # Spark accepts any callable, although its annotation requires a function.
        return shuffled.mapInArrow(task, schema(spec.output_fields))


class _Frames:
    """DataFrames of the nodes of one graph, each created once.

    With `persist`, as in a batch with several branches, a node with several readers is persisted,
    so that its operator runs once.

    The stage of an operator must end at a shuffle: a `coalesce`, `union` or `limit` in the same
    stage would renumber its partitions, which identify its subtasks, or skip some. `of` is for our
    own plans, which shuffle or read everything; `for_any_plan` adds the shuffle.
    """

    def __init__(
        self,
        compiler: Compiler,
        graph: JobGraph,
        inputs: dict[int, DataFrame],
        *,
        persist: bool = False,
    ) -> None:
        self._compiler = compiler
        self._graph = graph
        self._inputs = inputs
        self._persist = persist
        self._made: dict[int, DataFrame] = {}
        self._for_any_plan: dict[int, DataFrame] = {}
        self._persisted: list[DataFrame] = []

    def of(self, node: StreamNode) -> DataFrame:
        """The DataFrame of a node, for an operator or for `_run_whole`."""
        if id(node) not in self._made:
            frame = self._make(node)
            if self._persist and self._graph.readers(node) > 1:
                if self._graph.has_sink(node):
                    # One shuffle for all sinks of the node.
                    frame = self._for_any_plan[id(node)] = self._shuffled(node, frame)
                frame.persist()
                self._persisted.append(frame)
            self._made[id(node)] = frame
        return self._made[id(node)]

    def for_any_plan(self, node: StreamNode) -> DataFrame:
        """The DataFrame of a node, for a user's plan."""
        frame = self.of(node)
        if id(node) not in self._for_any_plan:
            self._for_any_plan[id(node)] = self._shuffled(node, frame)
        return self._for_any_plan[id(node)]

    def release(self) -> None:
        """Unpersists all persisted DataFrames."""
        while self._persisted:
            self._persisted.pop().unpersist()

    def _make(self, node: StreamNode) -> DataFrame:
        if isinstance(node, SourceNode):
            return self._inputs.get(id(node), node.dataframe)
        return self._compiler.apply(node, self.of(node.upstream))

    def _shuffled(self, node: StreamNode, frame: DataFrame) -> DataFrame:
        """Shuffles each subtask's rows, in order, to the partition with the subtask's number."""
        if isinstance(node, SourceNode):
            return frame
        return frame.repartitionById(self._compiler.parallelism(node), F.spark_partition_id())


def _run_whole(frame: DataFrame) -> None:
    """Runs all tasks of a DataFrame and discards the rows."""
    frame.write.format("noop").mode("overwrite").save()


def _with_key(node: OperatorNode, upstream: DataFrame) -> DataFrame:
    """The upstream columns, with the columns of a key function added."""
    function = node.keys.function
    if function is None:
        return upstream
    columns = node.upstream.columns
    element = _column(columns.names[0]) if columns.bare else F.struct(*map(_column, columns.names))
    computed = F.udf(function, data_type(node.keys.key_type))(element)
    names = node.keys.columns
    if len(names) == 1:
        return upstream.withColumn(names[0], computed)
    whole = free_name("__key", columns.names)
    keyed = upstream.withColumn(whole, computed)
    inner = [field.name or f"f{number}" for number, field in enumerate(node.keys.key_type.fields)]
    parts = {name: _column(whole).getField(field) for name, field in zip(names, inner, strict=True)}
    return keyed.withColumns(parts)


def _row_check(node: OperatorNode, max_parallelism: int) -> Column:
    """The row check: key group, and hash of the operator's input columns except those with maps.

    The key, often the longest column, is hashed once for both.
    """
    key_hash = F.xxhash64(*map(_column, node.keys.columns))
    seen = dict.fromkeys((*node.value_columns, *node.order_columns))
    others = [name for name in seen if name not in node.keys.columns]
    hashable = [
        _column(name)
        for name in others
        if is_hashable(node.upstream.columns.type_of(name, node.kind))
    ]
    row_hash = F.xxhash64(key_hash, *hashable)
    group = F.pmod(key_hash, F.lit(max_parallelism))
    return row_hash.bitwiseAND(F.lit(~GROUP_BITS)).bitwiseOR(group)


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
