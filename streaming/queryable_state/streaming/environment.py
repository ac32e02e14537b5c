"""Entry point of a program: creates its streams and starts its jobs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

from queryable_state.streaming.config.checkpoint_config import CheckpointConfig, CheckpointingMode
from queryable_state.streaming.config.restart_strategy import (
    RestartStrategies,
    RestartStrategyConfiguration,
)
from queryable_state.streaming.config.settings import EnvironmentSettings
from queryable_state.streaming.config.state_backend import StateBackend
from queryable_state.streaming.graph.declared_job import NextJob
from queryable_state.streaming.graph.job_graph import JobGraph
from queryable_state.streaming.graph.nodes import SourceNode
from queryable_state.streaming.order_checks import warn_of_order
from queryable_state.streaming.sources.stream_sources import StreamSources
from queryable_state.streaming.spark.application import SparkApplication
from queryable_state.streaming.spark.launch import JobLaunch, QueryRestore, configured
from queryable_state.streaming.spark.plan.compiler import Compiler
from queryable_state.streaming.spark.session import active_session, check_session, parallelism_of
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from queryable_state.streaming.graph.nodes import OperatorNode, SinkNode, StreamNode
    from queryable_state.streaming.job_client import JobClient


class StreamExecutionEnvironment(StreamSources):
    """The streams and sinks of a program on one Spark session.

    The environment collects sinks and stateful operators until `execute` or `execute_async` starts
    all of them as one Spark query. The caller starts streams taken with `to_dataframe()`. Used
    from one thread.
    """

    def __init__(self, spark: SparkSession, settings: EnvironmentSettings) -> None:
        self._spark = spark
        self._settings = settings
        self._next = NextJob()
        self._application: SparkApplication | None = None
        self._backend: StateBackend | None = None
        self._checkpoints = CheckpointConfig.of(settings)
        self._restart_strategy = RestartStrategies.fall_back_restart()

    @classmethod
    def get_execution_environment(
        cls, spark: SparkSession | None = None, settings: EnvironmentSettings | None = None
    ) -> Self:
        """Creates an environment on a Spark session, by default the active or a new session.

        Without `settings` they are read from Spark's configuration (`spark.queryable_state.*`), the
        process environment and a file; see `EnvironmentSettings`.
        """
        session = active_session() if spark is None else spark
        check_session(session)
        if settings is None:
            conf = dict(session.sparkContext.getConf().getAll()) | dict(session.conf.getAll)
            settings = EnvironmentSettings.load(conf)
        return cls(session, settings)

    @property
    def settings(self) -> EnvironmentSettings:
        """The current settings."""
        return self._settings

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the subtasks per stateful operator, for jobs started later."""
        if parallelism < 1:
            raise InvalidRequestError(f"parallelism must be at least 1, not {parallelism}")
        return self._set(parallelism=parallelism)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the key groups per state, for jobs started later; fixed for a state's lifetime."""
        return self._set(max_parallelism=max_parallelism)

    def set_state_backend(self, backend: StateBackend | str) -> Self:
        """Sets the state backend of jobs started later: a StateBackend, or a value of
        `state.backend` (`heap`, `rocksdb`)."""
        if isinstance(backend, StateBackend):
            self._backend = backend
            return self
        self._backend = None
        return self._set(backend=backend)

    def get_state_backend(self) -> StateBackend | str:
        """The StateBackend that was set, else the value of `state.backend`."""
        return self._backend or self._settings.backend

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    ) -> Self:
        """Takes a checkpoint every `interval` milliseconds of jobs started later.

        State with a durable location survives without checkpoints too: every batch is durable when
        it commits. With checkpointing a failed job is restarted (`set_restart_strategy`), and a job
        without a durable location keeps its checkpoints in the driver's memory.
        """
        self._checkpoints.set_checkpoint_interval(interval)
        self._checkpoints.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint configuration; changes apply to jobs started later."""
        return self._checkpoints

    def set_restart_strategy(self, strategy: RestartStrategyConfiguration) -> Self:
        """Sets the restart strategy of jobs started later; see `RestartStrategies`."""
        if not isinstance(strategy, RestartStrategyConfiguration):
            raise InvalidRequestError(
                f"{strategy!r} is not a restart strategy: create one with RestartStrategies"
            )
        self._restart_strategy = strategy
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The restart strategy that was set, else the fallback strategy."""
        return self._restart_strategy

    def execute(
        self,
        job_name: str,
        *,
        checkpoint_location: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        output_mode: str = "update",
        savepoint: str | None = None,
        allow_non_restored_state: bool = False,
    ) -> JobClient:
        """Starts the job and waits until it ends; raises its failure. See `execute_async`."""
        job = self.execute_async(
            job_name,
            checkpoint_location=checkpoint_location,
            trigger=trigger,
            output_mode=output_mode,
            savepoint=savepoint,
            allow_non_restored_state=allow_non_restored_state,
        )
        job.await_termination()
        return job

    def execute_async(
        self,
        job_name: str,
        *,
        checkpoint_location: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        output_mode: str = "update",
        savepoint: str | None = None,
        allow_non_restored_state: bool = False,
    ) -> JobClient:
        """Starts all sinks, and the operators without a reader, as one Spark query.

        `trigger` has the arguments of `DataStreamWriter.trigger`. `output_mode` is the mode of the
        Spark query; use `append` if Spark refuses update mode. The call clears the environment,
        also if the job is refused. If nothing new is declared, the next call tries a refused job
        again.

        With `state.checkpoints.dir` the job's state is stored there under the job's name, and so
        is Spark's checkpoint unless `checkpoint_location` is given. The same program then continues
        after its last committed batch when it is started again.

        With the URI of a `savepoint` the job starts from it: under a new id, with the state of the
        operators that have the same uid, at any parallelism. Started again with the same arguments
        the job continues from its own checkpoint. Raises RestoreMismatchError if the savepoint does
        not fit the job. With `allow_non_restored_state` the savepoint may contain state of
        operators that the job does not have; that state is not restored.
        """
        declared = self._next.take(job_name)
        try:
            graph = declared.checked_graph(job_name)
            warn_of_order(graph)
            return JobLaunch(
                graph=graph,
                application=self._running_application(),
                settings=self._job_settings(),
                job_name=job_name,
                backend=self._backend,
                checkpoints=self._checkpoints,
                restart_strategy=self._restart_strategy,
                checkpoint_location=checkpoint_location,
                trigger=dict(trigger or {}),
                output_mode=output_mode,
                savepoint=savepoint or self._settings.savepoint_path,
                allow_non_restored_state=(
                    allow_non_restored_state or self._settings.savepoint_ignore_unclaimed_state
                ),
            ).start()
        except BaseException:
            self._next.refuse(declared)
            raise

    def restore_savepoint(
        self, savepoint: str, checkpoint_location: str, *, allow_non_restored_state: bool = False
    ) -> str:
        """Prepares a query that the caller starts to begin from a savepoint; returns its id.

        Call it after `to_dataframe()` and before `writeStream.option("checkpointLocation", ...)`
        with the same location. A repeated call changes nothing. Raises RestoreMismatchError if the
        savepoint does not fit the streams taken with `to_dataframe()`, or another query uses the
        location.
        """
        query = QueryRestore(
            application=self._running_application(),
            settings=self._job_settings(),
            streams=self._next.taken,
            backend=self._backend,
            checkpoints=self._checkpoints,
        )
        return query.seed(
            savepoint, checkpoint_location, allow_non_restored_state=allow_non_restored_state
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
        return f"<{type(self).__name__}: {self._next.summary()}>"

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

    def _set(self, **values: Any) -> Self:
        self._settings = dataclasses.replace(self._settings, **values)
        return self

    def _job_settings(self) -> EnvironmentSettings:
        most = self._settings.max_parallelism
        parallelism = self._settings.parallelism or min(parallelism_of(self._spark), most)
        return dataclasses.replace(self._settings, parallelism=parallelism)

    def _running_application(self) -> SparkApplication:
        if self._application is None or self._application.closed:
            self._application = SparkApplication.of(self._spark, self._settings)
        return self._application

    def _add_operator(self, node: OperatorNode) -> OperatorNode:
        self._next.declared.add_operator(node)
        return node

    def _add_sink(self, node: SinkNode) -> None:
        self._next.declared.sinks.append(node)

    def _as_stream_environment(self) -> Self:
        return self

    def _partitions(self) -> int:
        return self._job_settings().parallelism

    def _dataframe_of(self, node: StreamNode) -> DataFrame:
        if isinstance(node, SourceNode):
            return node.dataframe
        graph = JobGraph.of_stream(node)
        graph.check()
        warn_of_order(graph)
        application, settings = self._running_application(), self._job_settings()
        identity, _ = configured(application, settings, self._backend, self._checkpoints)
        frame = Compiler(application, settings, "", identity).dataframe(node, graph)
        for operator in graph.last_operators:
            operator.taken = True
            self._next.taken.append(operator)
        return frame
