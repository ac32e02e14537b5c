"""Entry point of a program: creates its streams and starts its jobs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final, Self

from queryable_state.server.config.sources import CONF_PREFIX
from queryable_state.server.process.console_log import log_to_console
from queryable_state.server.settings.durability_settings import DurabilitySettings
from queryable_state.server.settings.environment_settings import EnvironmentSettings, joined
from queryable_state.streaming.execution.configuration import Configuration
from queryable_state.streaming.execution.environment_options import EnvironmentOptions
from queryable_state.streaming.graph.declarations import Declarations
from queryable_state.streaming.graph.declared_job import NextJob
from queryable_state.streaming.graph.execution_plan import ExecutionPlan
from queryable_state.streaming.graph.job_graph import JobGraph
from queryable_state.streaming.graph.nodes import SourceNode
from queryable_state.streaming.sinks.sink_warnings import warn_of_sinks
from queryable_state.streaming.sources.stream_sources import StreamSources
from queryable_state.streaming.spark.application import SparkApplication
from queryable_state.streaming.spark.launch import JobLaunch, QueryRestore, configured
from queryable_state.streaming.spark.plan.compiler import Compiler
from queryable_state.streaming.spark.plan.transformed import transformed_node
from queryable_state.streaming.spark.program_files import ProgramFiles
from queryable_state.streaming.spark.session import (
    DefaultParallelism,
    active_session,
    allow_time_columns,
    check_session,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from queryable_state.streaming.execution.job_result import JobExecutionResult
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.job_client import JobClient
    from queryable_state.streaming.operator_handles import FrameFunction

DEFAULT_JOB_NAME: Final = "Flink Streaming Job"
_OF_JOBS = {"parallelism", "max_parallelism"}


class StreamExecutionEnvironment(Declarations, StreamSources, ProgramFiles, EnvironmentOptions):
    """The streams and sinks of a program on one Spark session.

    The environment collects sinks and stateful operators until `execute` or `execute_async` starts
    all of them as one Spark query. The caller starts streams taken with `to_dataframe()`. Used
    from one thread.
    """

    def __init__(self, spark: SparkSession, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self._spark = spark
        self._default = DefaultParallelism(spark)
        self._next = NextJob()
        self._application: SparkApplication | None = None

    @classmethod
    def get_execution_environment(
        cls,
        spark: SparkSession | Configuration | None = None,
        settings: EnvironmentSettings | None = None,
        *,
        configuration: Configuration | None = None,
    ) -> Self:
        """Creates an environment on a Spark session, by default the active or a new session.

        Without `settings` they are read from Spark's configuration (`spark.queryable_state.*`), the
        process environment and a file; see `EnvironmentSettings`. A `configuration` overrides them;
        as in PyFlink it may be the first argument.
        """
        log_to_console()
        if isinstance(spark, Configuration):
            spark, configuration = None, spark
        session = active_session() if spark is None else spark
        check_session(session)
        allow_time_columns(session)
        if settings is None:
            conf = dict(session.sparkContext.getConf().getAll()) | dict(session.conf.getAll)
            settings = EnvironmentSettings.load(conf)
        environment = cls(session, settings)
        environment._add_files(settings.flink_options)
        if configuration is not None:
            environment.configure(configuration)
        return environment

    def execute(
        self,
        job_name: str | None = None,
        *,
        checkpoint_location: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        output_mode: str = "update",
        savepoint: str | None = None,
        allow_non_restored_state: bool = False,
    ) -> JobExecutionResult:
        """Starts the job, waits until it ends and returns its result; raises its failure.

        See `execute_async`.
        """
        job = self.execute_async(
            job_name,
            checkpoint_location=checkpoint_location,
            trigger=trigger,
            output_mode=output_mode,
            savepoint=savepoint,
            allow_non_restored_state=allow_non_restored_state,
        )
        return job.await_result()

    def execute_async(
        self,
        job_name: str | None = None,
        *,
        checkpoint_location: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        output_mode: str = "update",
        savepoint: str | None = None,
        allow_non_restored_state: bool = False,
    ) -> JobClient:
        """Starts all sinks, and the operators without a reader, as one Spark query.

        Without a `job_name` the name is `pipeline.name`, else `Flink Streaming Job`.

        `trigger` has arguments of `DataStreamWriter.trigger`, except `realTime` and `continuous`.
        `output_mode` is the mode of the Spark query; use `append` if Spark refuses update mode. The
        call clears the environment, also if the job is refused. If nothing new is declared, the
        next call tries a refused job again.

        With `state.checkpoints.dir` the job's state is stored there under the job's name, and so
        is Spark's checkpoint unless `checkpoint_location` is given. The same program then continues
        after its last committed batch when it is started again.

        With the URI of a `savepoint`, or of a retained checkpoint (`chk-<n>` in the state root of
        another job), the job starts from it: under a new id, with the state of the
        operators that have the same uid, at any parallelism. Started again with the same arguments
        the job continues from its own checkpoint. Raises RestoreMismatchError if the savepoint does
        not fit the job. With `allow_non_restored_state` the savepoint may contain state of
        operators that the job does not have; that state is not restored.
        """
        job_name = job_name or self._config.option("pipeline.name") or DEFAULT_JOB_NAME
        if not trigger and self._config.option("execution.runtime-mode") == "BATCH":
            trigger = {"availableNow": True}
        declared = self._next.take(job_name)
        try:
            graph = declared.checked_graph(job_name)
            if not self._config.has_auto_generated_uids_enabled():
                graph.require_uids(job_name)
            warn_of_sinks(graph, output_mode)
            return JobLaunch(
                graph=graph,
                application=self._running_application(),
                settings=self._job_settings(),
                keeps_parallelism=self._counts_cores(),
                job_name=job_name,
                backend=self._backend,
                checkpoints=self._checkpoints,
                restart_strategy=self.get_restart_strategy(),
                checkpoint_location=checkpoint_location,
                trigger=dict(trigger or {}),
                output_mode=output_mode,
                savepoint=savepoint,
                allow_non_restored_state=(
                    allow_non_restored_state or self._settings.savepoint_ignore_unclaimed_state
                ),
            ).start()
        except BaseException:
            self._next.refuse(declared)
            raise

    def get_execution_plan(self) -> str:
        """The declared job as JSON, in the form of Flink's plan; call it before `execute`.

        Each node has an id, type, pact (Data Source, Operator, Data Sink), contents, parallelism
        (0: Spark decides) and its predecessors with their ship strategy. Stateful operators also
        have a uid, keys and the names of their queryable states.
        """
        return self._plan().as_json()

    def draw_execution_plan(self, language: str = "mermaid") -> str:
        """The declared job as text of a graph: `mermaid` or `dot` (Graphviz)."""
        return self._plan().drawn(language)

    def restore_savepoint(
        self,
        savepoint: str,
        checkpoint_location: str,
        *,
        query: DataFrame | None = None,
        allow_non_restored_state: bool = False,
    ) -> str:
        """Prepares a query that the caller starts to begin from a savepoint; returns its id.

        `query` is the DataFrame that the caller will write: its sources are matched with those of
        the savepoint as for jobs, by uid, Spark's name or what they read. Without it the query must
        have the sources of the savepoint in the same order; its start is refused if it has not.

        Call it after `to_dataframe()` and before `writeStream.option("checkpointLocation", ...)`
        with the same location. A repeated call changes nothing. Raises RestoreMismatchError if the
        savepoint does not fit the streams taken with `to_dataframe()`, or another query uses the
        location.
        """
        restore = QueryRestore(
            application=self._running_application(),
            settings=self._job_settings(),
            streams=self._next.taken,
            backend=self._backend,
            checkpoints=self._checkpoints,
        )
        return restore.seed(
            savepoint,
            checkpoint_location,
            query=query,
            allow_non_restored_state=allow_non_restored_state,
        )

    def proxy_address(self, timeout_s: float = 60.0) -> str:
        """HOST:PORT of a proxy; waits for the first task, which starts the first proxy.

        For queries that the caller started with `writeStream`; other jobs have a `JobClient`.
        """
        return self._running_application().proxy_address(timeout_s)

    @property
    def coordinator_address(self) -> str:
        """HOST:PORT of the coordinator, for `queryable-state proxy`."""
        return self._running_application().coordinator_address

    @property
    def secret_file(self) -> Path:
        """A file with the secret that `queryable-state proxy` needs; deleted on `close`."""
        return self._running_application().secret_file

    def __repr__(self) -> str:
        # The text is made without Spark, which may be stopped.
        given = self._config.get_parallelism()
        parallelism = f"parallelism {given}" if given > 0 else "parallelism of Spark"
        backend = self._backend or self._settings.backend
        return (
            f"<{type(self).__name__}: {self._next.summary()}; {parallelism}, max parallelism "
            f"{self.get_max_parallelism()}, state backend {backend}>"
        )

    def __str__(self) -> str:
        """The declared operators and sinks, one line each."""
        return "\n  ".join((repr(self), *self._next.lines()))

    def close(self) -> None:
        """Stops the coordinator and the state servers of the Spark application. Idempotent.

        Running queries of the application fail. `spark.stop()` does the same.
        """
        application, self._application = self._application, None
        if application is not None:
            application.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _job_settings(self) -> EnvironmentSettings:
        return dataclasses.replace(self.settings, parallelism=self.get_parallelism())

    def _counts_cores(self) -> bool:
        """True if nobody has set a parallelism for the jobs of the environment."""
        return self._config.get_parallelism() <= 0 and not self._default.is_given

    def _default_parallelism(self, most: int) -> int:
        return self._default.within(most)

    def _check_changes(self, fields: Collection[str]) -> None:
        of_jobs = {each.name for each in dataclasses.fields(DurabilitySettings)} | _OF_JOBS
        fixed = sorted(set(fields) - of_jobs)
        if fixed and self._application is not None and not self._application.closed:
            raise InvalidRequestError(
                f"{joined(CONF_PREFIX + name for name in fixed)} cannot change while the state "
                "servers run: configure the environment before its first job"
            )

    def _plan(self) -> ExecutionPlan:
        graph = self._next.planned().graph()
        graph.check_not_empty(self._config.option("pipeline.name") or DEFAULT_JOB_NAME)
        return ExecutionPlan.of(graph, self.get_parallelism())

    def _running_application(self) -> SparkApplication:
        if self._application is None or self._application.closed:
            self._application = SparkApplication.of(self._spark, self.settings)
        return self._application

    def _as_stream_environment(self) -> Self:
        return self

    def _partitions(self) -> int:
        return self._job_settings().parallelism

    def _transformed(
        self, node: StreamNode, function: FrameFunction, *, keeps_columns: bool = False
    ) -> StreamNode:
        return transformed_node(self._spark, node, function, keeps_columns=keeps_columns)

    def _dataframe_of(self, node: StreamNode) -> DataFrame:
        if isinstance(node, SourceNode):
            return node.dataframe
        (graph := JobGraph.of_stream(node)).check()
        warn_of_sinks(graph)
        application, settings = self._running_application(), self._job_settings()
        identity, _ = configured(application, settings, self._backend, self._checkpoints)
        frame = Compiler(application, settings, "", identity).dataframe(node, graph)
        self._next.take_stream(graph)
        return frame
