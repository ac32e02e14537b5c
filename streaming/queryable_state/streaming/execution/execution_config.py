"""Execution configuration of an environment: PyFlink's ExecutionConfig."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from queryable_state.server.settings.environment_settings import (
    EnvironmentSettings,
    check_parallelism,
)
from queryable_state.streaming.config.restart_strategy import (
    RestartStrategies,
    RestartStrategyConfiguration,
)
from queryable_state.streaming.execution.execution_modes import (
    ExecutionMode,
    InputDependencyConstraint,
)
from queryable_state.streaming.execution.kept_options import ALL_OPTIONS, KeptOptions
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping


class ExecutionConfig(KeptOptions):
    """Options of the jobs that an environment starts; a change applies to later jobs.

    The parallelism, the restart strategy and `disable_auto_generated_uids` work. The other options
    belong to the JVM or to Flink's scheduler: their values are kept and returned, and the first
    value other than the default logs a WARNING with the reason.
    """

    PARALLELISM_DEFAULT: Final = -1
    PARALLELISM_UNKNOWN: Final = -2

    def __init__(self, settings: EnvironmentSettings | None = None) -> None:
        settings = EnvironmentSettings() if settings is None else settings
        super().__init__(settings.flink_options)
        self._parallelism = settings.parallelism
        self._max_parallelism = settings.max_parallelism
        self._restart_strategy = RestartStrategies.fall_back_restart()

    def get_parallelism(self) -> int:
        """The subtasks per stateful operator; PARALLELISM_DEFAULT if not set."""
        return self._parallelism or self.PARALLELISM_DEFAULT

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the subtasks per stateful operator. PARALLELISM_DEFAULT resets the value, and
        PARALLELISM_UNKNOWN leaves it unchanged."""
        if parallelism == self.PARALLELISM_UNKNOWN:
            return self
        if parallelism == self.PARALLELISM_DEFAULT:
            parallelism = 0
        elif parallelism < 1:
            raise InvalidRequestError(f"parallelism must be at least 1, not {parallelism}")
        check_parallelism(parallelism, self._max_parallelism)
        self._parallelism = parallelism
        return self

    def get_max_parallelism(self) -> int:
        """The key groups per state."""
        return self._max_parallelism

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the key groups per state; fixed for a state's lifetime."""
        check_parallelism(self._parallelism, max_parallelism)
        self._max_parallelism = max_parallelism
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The restart strategy that was set, else the fallback strategy."""
        return self._restart_strategy

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> Self:
        """Sets the restart strategy; see `RestartStrategies`."""
        if not isinstance(restart_strategy_configuration, RestartStrategyConfiguration):
            raise InvalidRequestError(
                f"{restart_strategy_configuration!r} is not a restart strategy: create one with "
                "RestartStrategies"
            )
        self._restart_strategy = restart_strategy_configuration
        return self

    def enable_auto_generated_uids(self) -> Self:
        """Lets operators without a uid be identified by their position in the program."""
        return self._keep("pipeline.auto-generate-uids", True)

    def disable_auto_generated_uids(self) -> Self:
        """Refuses jobs with a stateful operator that has no uid."""
        return self._keep("pipeline.auto-generate-uids", False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """True if operators need no uid."""
        return bool(self._kept("pipeline.auto-generate-uids"))

    def set_auto_watermark_interval(self, interval: int) -> Self:
        """Keeps the milliseconds between two watermarks."""
        return self._keep("pipeline.auto-watermark-interval", _not_negative(interval))

    def get_auto_watermark_interval(self) -> int:
        """The value that was set."""
        return int(self._kept("pipeline.auto-watermark-interval"))

    def set_latency_tracking_interval(self, interval: int) -> Self:
        """Keeps the milliseconds between two latency marks."""
        return self._keep("metrics.latency.interval", int(interval))

    def get_latency_tracking_interval(self) -> int:
        """The value that was set."""
        return int(self._kept("metrics.latency.interval"))

    def set_task_cancellation_interval(self, interval: int) -> Self:
        """Keeps the milliseconds between two attempts to cancel a task."""
        return self._keep("task.cancellation.interval", int(interval))

    def get_task_cancellation_interval(self) -> int:
        """The value that was set."""
        return int(self._kept("task.cancellation.interval"))

    def set_task_cancellation_timeout(self, timeout: int) -> Self:
        """Keeps the milliseconds after which a cancellation fails; 0: never."""
        return self._keep("task.cancellation.timeout", _not_negative(timeout))

    def get_task_cancellation_timeout(self) -> int:
        """The value that was set."""
        return int(self._kept("task.cancellation.timeout"))

    def set_execution_mode(self, execution_mode: ExecutionMode) -> Self:
        """Keeps the mode of data exchanges."""
        return self._keep("set_execution_mode", ExecutionMode(execution_mode).name)

    def get_execution_mode(self) -> ExecutionMode:
        """The value that was set."""
        return ExecutionMode[self._kept("set_execution_mode")]

    def set_default_input_dependency_constraint(
        self, input_dependency_constraint: InputDependencyConstraint
    ) -> Self:
        """Keeps the scheduling constraint."""
        constraint = InputDependencyConstraint(input_dependency_constraint)
        return self._keep("set_default_input_dependency_constraint", constraint.name)

    def get_default_input_dependency_constraint(self) -> InputDependencyConstraint:
        """The value that was set."""
        return InputDependencyConstraint[self._kept("set_default_input_dependency_constraint")]

    def get_global_job_parameters(self) -> dict[str, str]:
        """The parameters that were set."""
        return dict(self._kept("pipeline.global-job-parameters"))

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, object]) -> Self:
        """Keeps parameters of the program, as texts."""
        texts = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        return self._keep("pipeline.global-job-parameters", texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and self._state() == other._state()

    def __hash__(self) -> int:
        return hash(self._state())

    def _state(self) -> tuple[Any, ...]:
        options = tuple((key, _hashable(self._kept(key))) for key in ALL_OPTIONS)
        return self._parallelism, self._max_parallelism, self._restart_strategy, options


def _hashable(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def _not_negative(value: int) -> int:
    if value < 0:
        raise InvalidRequestError(f"a time must be at least 0 ms, not {value}")
    return int(value)
