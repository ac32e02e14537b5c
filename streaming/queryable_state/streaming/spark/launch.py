"""Launch of jobs: state paths, checks, restore from a savepoint, and the start of the query."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from queryable_state.server.checkpoint.layout import beside
from queryable_state.streaming.config.job_configuration import backend_of, config_id, job_config
from queryable_state.streaming.config.restart_strategy import RestartDecision
from queryable_state.streaming.config.state_paths import (
    absolute,
    driver_root,
    keeps_in_driver,
    paths_of,
)
from queryable_state.streaming.graph.job_graph import JobGraph
from queryable_state.streaming.job_client import JobClient
from queryable_state.streaming.spark.declarations import declarations
from queryable_state.streaming.spark.job_checks import check_paths, stored_parallelism
from queryable_state.streaming.spark.picklable import check_picklable
from queryable_state.streaming.spark.plan.compiler import Compiler
from queryable_state.streaming.spark.plan.plan_settings import set_plan
from queryable_state.streaming.spark.plan.plan_sources import query_sources
from queryable_state.streaming.spark.queries.checkpoint_files import is_temporary
from queryable_state.streaming.spark.queries.trigger_check import check_trigger
from queryable_state.streaming.spark.savepoint_start import SavepointStart
from queryable_state.streaming.spark.savepoints.marker_offsets import check_markers
from queryable_state.streaming.spark.savepoints.progress_export import newest_offsets
from queryable_state.streaming.spark.savepoints.source_offsets import (
    check_sources,
    record_sources,
)
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.streaming.spark.session import default_location
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.server.settings.environment_settings import EnvironmentSettings
    from queryable_state.streaming.config.checkpoint_config import CheckpointConfig
    from queryable_state.streaming.config.restart_strategy import RestartStrategyConfiguration
    from queryable_state.streaming.config.state_backends import StateBackend
    from queryable_state.streaming.config.state_paths import StatePaths
    from queryable_state.streaming.graph.nodes import OperatorNode
    from queryable_state.streaming.spark.application import SparkApplication
    from queryable_state.streaming.spark.declarations import OperatorDeclaration
    from queryable_state.streaming.spark.savepoints.query_sources import QuerySource

_log = logging.getLogger("queryable_state.streaming")


def configured(
    application: SparkApplication,
    settings: EnvironmentSettings,
    backend: StateBackend | None,
    checkpoints: CheckpointConfig,
) -> tuple[str, JobConfig]:
    """Registers a configuration for queries that the user starts; returns its id and itself.

    Their state is stored beside their checkpoint, or in the driver's memory if the backend does so.
    """
    chosen = backend_of(settings, backend, checkpoints.get_checkpoint_storage())
    root = driver_root() if keeps_in_driver(settings, chosen) else ""
    config = job_config(settings, chosen, checkpoints, state_root=root)
    identity = config_id(config)
    application.coordinator.configure(identity, config)
    return identity, config


@dataclass(frozen=True, kw_only=True)
class JobLaunch:
    """A job to start: the arguments of `execute` and the environment's settings."""

    application: SparkApplication
    settings: EnvironmentSettings
    """Settings with the job's parallelism."""
    keeps_parallelism: bool = False
    """Operators that set none have the subtasks with which their state is stored, if it is."""
    graph: JobGraph
    job_name: str
    backend: StateBackend | None
    checkpoints: CheckpointConfig
    restart_strategy: RestartStrategyConfiguration
    checkpoint_location: str | None = None
    trigger: Mapping[str, Any] = field(default_factory=dict)
    output_mode: str = "update"
    savepoint: str | None = None
    """URI; None: that of the settings, if they have one."""
    allow_non_restored_state: bool = False

    def start(self) -> JobClient:
        """Checks and starts the job; a failed check raises before anything runs."""
        check_trigger(self.trigger)
        check_picklable(self.graph.nodes)
        decision = RestartDecision(
            self.restart_strategy,
            self.settings,
            checkpointing_enabled=self.checkpoints.is_checkpointing_enabled(),
        )
        chosen = self.settings.savepoint_path or None if self.savepoint is None else self.savepoint
        savepoint = None if chosen is None else absolute(chosen)
        paths, config = self._configured(restarts=decision.may_restart)
        if savepoint is not None:
            # The parallelism of stored state is known afterwards; the sources do not depend on it.
            unscaled = self._writer(self._compiler(""), paths)
            self._seed(savepoint, paths, config, self._sources(unscaled))
        context = self._session.sparkContext
        check_paths(context, paths, config, self.job_name, self._declarations)
        compiler = self._compiler(config_id(config), self._kept_parallelism(paths, config))
        writer = self._writer(compiler, paths)
        sources = self._sources(writer)
        if paths.spark_location is not None:
            files = SparkFiles.of(context, paths.spark_location)
            offsets = newest_offsets(files)
            if offsets is not None:
                needs_clock = self.graph.needs_clock
                check_markers(offsets, files.root, self.job_name, needs_clock=needs_clock)
                check_sources(offsets, files, self.job_name, sources)
        return self._started(paths, config, decision, compiler, writer, sources)

    def _sources(self, writer: DataStreamWriter) -> list[QuerySource]:
        return query_sources(writer._df, self.graph.sources)

    def _writer(self, compiler: Compiler, paths: StatePaths) -> DataStreamWriter:
        return compiler.writer(
            self.graph,
            checkpoint_location=self._location(paths),
            trigger=self.trigger or self._trigger_of_sources,
            output_mode=self.output_mode,
        )

    def _configured(self, *, restarts: bool) -> tuple[StatePaths, JobConfig]:
        """The state paths and the configuration of the job."""
        backend = backend_of(self.settings, self.backend, self.checkpoints.get_checkpoint_storage())
        paths = paths_of(
            self.settings,
            backend,
            self.job_name,
            checkpoint_location=self.checkpoint_location,
            session_location=default_location(self._session),
            checkpointing_enabled=self.checkpoints.is_checkpointing_enabled(),
            restarts=restarts,
            scratch=self.application.scratch_location,
        )
        config = job_config(self.settings, backend, self.checkpoints, state_root=paths.state_root)
        return paths, replace(
            config,
            allow_non_restored_state=self.allow_non_restored_state,
            operators={node.uid: node.name for node in self.graph.operators},
            declared=[state for each in self._declarations for state in each.states or ()],
        )

    def _seed(
        self,
        savepoint: str,
        paths: StatePaths,
        config: JobConfig,
        sources: Sequence[QuerySource],
    ) -> None:
        """Seeds the job's paths from the savepoint, unless an earlier start did."""
        location = paths.spark_location
        is_durable = bool(paths.state_root) or not is_temporary(location or "")
        if not config.changelog or location is None or not is_durable:
            raise InvalidRequestError(
                f"job {self.job_name!r} cannot start from {savepoint}: it has no durable "
                "location for its state. Set state.checkpoints.dir or pass a checkpoint_location, "
                "and do not set spark.queryable_state.changelog to off"
            )
        SavepointStart(
            context=self.application.context,
            coordinator=self.application.coordinator,
            config=config,
            savepoint=savepoint,
            allow_non_restored_state=self.allow_non_restored_state,
        ).seed(
            location,
            paths.root,
            job_name=self.job_name,
            operators=self._declarations,
            markers=int(self.graph.needs_clock),
            sources=sources,
        )

    def _started(
        self,
        paths: StatePaths,
        config: JobConfig,
        decision: RestartDecision,
        compiler: Compiler,
        writer: DataStreamWriter,
        sources: Sequence[QuerySource],
    ) -> JobClient:
        identity = config_id(config)
        self.application.coordinator.configure(identity, config)
        self.application.adapter.note_job(identity)
        operators = [compiler.layout(node) for node in self.graph.operators]
        planned = compiler.is_native(self.graph)

        def start() -> StreamingQuery:
            query = writer.start()
            query_id = uuid.UUID(str(query.id)).bytes
            try:
                self.application.spark_log.hide_failure(query_id, self.job_name)
                set_plan(query, self.graph.operators)
                root = query._jsq.streamingQuery().resolvedCheckpointRoot()
                record_sources(SparkFiles(self.application.context, root), sources)
                if not planned:
                    self.application.stored.open(query_id, self.job_name, identity, operators)
            except BaseException:
                query.stop()
                raise
            return query

        return JobClient.started(
            self.application, self.job_name, start, decision, paths=paths, config=config
        )

    @property
    def _trigger_of_sources(self) -> dict[str, Any]:
        """A query that ends with its sources if all of them are bounded."""
        return {"availableNow": True} if self.graph.is_bounded else {}

    def _location(self, paths: StatePaths) -> str | None:
        """Spark's checkpoint location, never a temporary one of Spark's: Spark deletes it when the
        query stops, but `stop_with_savepoint` reads it afterwards."""
        if paths.spark_location is None and not default_location(self._session):
            return self.application.scratch_location()
        return paths.spark_location

    @cached_property
    def _declarations(self) -> Sequence[OperatorDeclaration]:
        return declarations(self.graph.operators, self._compiler(""), self.job_name)

    def _kept_parallelism(self, paths: StatePaths, config: JobConfig) -> Mapping[str, int]:
        """The subtasks of the operators that are to keep those of their stored state, by uid."""
        if not self.keeps_parallelism:
            return {}
        stored = stored_parallelism(paths, config, self.application.coordinator.objects)
        kept = {
            node.uid: stored[node.uid]
            for node in self.graph.operators
            if not node.parallelism and node.uid in stored
        }
        if others := {number for number in kept.values() if number != self.settings.parallelism}:
            _log.info(
                "job %r: operators with state keep its parallelism %s, not %d; set "
                "env.set_parallelism(...) or parallelism.default to rescale",
                self.job_name,
                ", ".join(map(str, sorted(others))),
                self.settings.parallelism,
            )
        return kept

    def _compiler(self, identity: str, kept: Mapping[str, int] | None = None) -> Compiler:
        return Compiler(self.application, self.settings, self.job_name, identity, kept)

    @property
    def _session(self) -> Any:
        return self.graph.sources[0].dataframe.sparkSession


@dataclass(frozen=True, kw_only=True)
class QueryRestore:
    """A restore of a query that the user will start on streams taken from an environment."""

    application: SparkApplication
    settings: EnvironmentSettings
    streams: Sequence[OperatorNode]
    backend: StateBackend | None
    checkpoints: CheckpointConfig

    def seed(
        self,
        savepoint: str,
        checkpoint_location: str,
        *,
        query: DataFrame | None,
        allow_non_restored_state: bool,
    ) -> str:
        """Seeds a query's checkpoint location from a savepoint; returns the query's id."""
        graph = JobGraph.of_ends(self.streams)
        operators = graph.operators
        if not operators:
            raise InvalidRequestError(
                "restore_savepoint checks the savepoint against the query's streams: take them "
                "with to_dataframe() first"
            )
        identity, config = configured(
            self.application, self.settings, self.backend, self.checkpoints
        )
        if config.state_root or not config.changelog:
            raise InvalidRequestError(
                "a query that starts from a savepoint stores its state beside its checkpoint "
                "location: do not set spark.queryable_state.changelog to off, and use a state "
                "backend that does not store checkpoints in the driver's memory"
            )
        location = absolute(checkpoint_location)
        start = SavepointStart(
            context=self.application.context,
            coordinator=self.application.coordinator,
            config=config,
            savepoint=absolute(savepoint),
            allow_non_restored_state=allow_non_restored_state,
        )
        compiler = Compiler(self.application, self.settings, "", identity)
        query_id = start.seed(
            location,
            beside(location),
            job_name="",
            operators=declarations(operators, compiler, ""),
            markers=len(graph.supplied) if graph.needs_clock else 0,
            sources=None if query is None else query_sources(query, graph.sources),
        )
        return query_id.hex
