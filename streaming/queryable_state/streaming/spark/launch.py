"""A job that is about to start: where its state goes, what is checked before, and the start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.job_client import JobClient
from queryable_state.streaming.job_configuration import backend_of, config_id, job_config
from queryable_state.streaming.restart_strategy import RestartDecision
from queryable_state.streaming.spark.compile import Compiler
from queryable_state.streaming.spark.job_checks import check_place
from queryable_state.streaming.spark.session import default_location
from queryable_state.streaming.state_place import driver_root, keeps_in_driver, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.coordinator.job_config import JobConfig
    from queryable_state.streaming.checkpoint_config import CheckpointConfig
    from queryable_state.streaming.graph import JobGraph
    from queryable_state.streaming.restart_strategy import RestartStrategyConfiguration
    from queryable_state.streaming.settings import EnvironmentSettings
    from queryable_state.streaming.spark.application import SparkApplication
    from queryable_state.streaming.state_backend import StateBackend
    from queryable_state.streaming.state_place import StatePlace


def configured(
    application: SparkApplication,
    settings: EnvironmentSettings,
    backend: StateBackend | None,
    checkpoints: CheckpointConfig,
) -> str:
    """The id of a configuration for queries the user starts, whose state is beside their
    checkpoint, or in the driver's memory where the backend wants it."""
    found = backend_of(settings, backend)
    root = driver_root() if keeps_in_driver(settings, found) else ""
    config = job_config(settings, found, checkpoints, state_root=root)
    identity = config_id(config)
    application.coordinator.configure(identity, config)
    return identity


@dataclass(frozen=True, kw_only=True)
class JobLaunch:
    """What `execute` was asked for, and what the environment says of jobs."""

    application: SparkApplication
    settings: EnvironmentSettings
    """With the parallelism the job is compiled by."""
    graph: JobGraph
    job_name: str
    backend: StateBackend | None
    checkpoints: CheckpointConfig
    restart_strategy: RestartStrategyConfiguration
    checkpoint_location: str | None = None
    trigger: Mapping[str, Any] = field(default_factory=dict)
    output_mode: str = "update"

    def start(self) -> JobClient:
        """Checks and starts the job; raises before anything has run where it cannot."""
        decision = RestartDecision(
            self.restart_strategy,
            self.settings,
            checkpointing_enabled=self.checkpoints.is_checkpointing_enabled(),
        )
        place, config = self._placed(restarts=decision.may_restart)
        self._check(place, config)
        return self._started(place, config, decision)

    def _placed(self, *, restarts: bool) -> tuple[StatePlace, JobConfig]:
        """Where the job's state is kept, and how."""
        backend = backend_of(self.settings, self.backend)
        place = place_of(
            self.settings,
            backend,
            self.job_name,
            checkpoint_location=self.checkpoint_location,
            session_location=default_location(self._session),
            checkpointing_enabled=self.checkpoints.is_checkpointing_enabled(),
            restarts=restarts,
            scratch=self.application.scratch_location,
        )
        config = job_config(self.settings, backend, self.checkpoints, state_root=place.state_root)
        return place, config

    def _check(self, place: StatePlace, config: JobConfig) -> None:
        compiler = self._compiler("")
        max_parallelisms = {
            node.uid: compiler.max_parallelism(node) for node in self.graph.operators
        }
        check_place(self._session.sparkContext, place, config, max_parallelisms)

    def _started(
        self, place: StatePlace, config: JobConfig, decision: RestartDecision
    ) -> JobClient:
        identity = config_id(config)
        self.application.coordinator.configure(identity, config)
        writer = self._compiler(identity).writer(
            self.graph,
            checkpoint_location=place.spark_location,
            trigger=self.trigger,
            output_mode=self.output_mode,
        )
        return JobClient.started(
            self.application, self.job_name, writer.start, decision, place=place, config=config
        )

    def _compiler(self, identity: str) -> Compiler:
        return Compiler(self.application, self.settings, self.job_name, identity)

    @property
    def _session(self) -> Any:
        return self.graph.sources[0].dataframe.sparkSession
