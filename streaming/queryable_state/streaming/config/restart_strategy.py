"""Restart strategies of failed jobs: PyFlink's RestartStrategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from queryable_state.wire.errors import (
    InvalidRequestError,
    JobError,
    QueryableStateError,
    Reason,
)

if TYPE_CHECKING:
    from queryable_state.server.settings.durability_settings import DurabilitySettings

UNLIMITED_ATTEMPTS = 2**31 - 1
DEFAULT_DELAY_MS = 1_000
FAILURES_OF_ONE_BATCH = 3
"""Consecutive failures of a user function in one batch after which the default gives up."""


class RestartStrategyConfiguration(ABC):
    """One of the strategies of `RestartStrategies`."""

    @abstractmethod
    def get_description(self) -> str:
        """Description of the strategy, as in Flink."""


class RestartStrategies:
    """Factory of restart strategies. Times are milliseconds or `datetime.timedelta`.

    A restart runs in the same driver, from the newest committed batch. No strategy restarts a job
    after an error that would recur (`InvalidRequestError`, and `JobError` unless a user function
    failed), or after another driver has taken over its state.
    """

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A failed job is not restarted."""

        def get_description(self) -> str:
            return "Restart deactivated."

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A limited number of restarts over the lifetime of a job, each after a fixed delay."""

        restart_attempts: int
        delay_ms: int

        def get_restart_attempts(self) -> int:
            """Maximum number of restarts."""
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Delay between a failure and the restart."""
            return timedelta(milliseconds=self.delay_ms)

        def get_description(self) -> str:
            return (
                f"Restart with fixed delay ({self.delay_ms} ms). "
                f"#{self.restart_attempts} restart attempts."
            )

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts unless too many failures happen within an interval."""

        max_failure_rate: int
        failure_interval_ms: int
        delay_ms: int

        def get_max_failure_rate(self) -> int:
            """Maximum failures within an interval; one more ends the job."""
            return self.max_failure_rate

        def get_failure_interval(self) -> timedelta:
            """Interval in which failures are counted."""
            return timedelta(milliseconds=self.failure_interval_ms)

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Delay between a failure and the restart."""
            return timedelta(milliseconds=self.delay_ms)

        def get_description(self) -> str:
            return (
                f"Failure rate restart with maximum of {self.max_failure_rate} failures within "
                f"interval {self.failure_interval_ms} ms and fixed delay {self.delay_ms} ms."
            )

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The configured strategy (`restart-strategy`).

        If none is configured: no restart without checkpointing; with checkpointing unlimited
        restarts, unless a user function keeps failing in the same batch.
        """

        def get_description(self) -> str:
            return "Cluster level default restart strategy"

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """A strategy that never restarts."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """The configured strategy; see `FallbackRestartStrategyConfiguration`."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> RestartStrategyConfiguration:
        """A strategy with a limited number of restarts, each after a fixed delay."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            _count("restart_attempts", restart_attempts),
            _milliseconds("delay_between_attempts", delay_between_attempts),
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> RestartStrategyConfiguration:
        """A strategy that restarts until more than `failure_rate` failures happen within
        `failure_interval`."""
        interval_ms = _milliseconds("failure_interval", failure_interval)
        if _count("failure_rate", failure_rate) < 1 or interval_ms < 1:
            raise InvalidRequestError(
                "failure_rate_restart needs a failure_rate of at least 1 and a failure_interval of "
                f"at least 1 ms, not {failure_rate} and {interval_ms} ms"
            )
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, interval_ms, _milliseconds("delay_interval", delay_interval)
        )


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failure of one run of a job."""

    error: BaseException
    at_ms: int
    """Monotonic milliseconds."""
    progressed: bool
    """True if the run had committed a batch."""


class RestartDecision:
    """Restart decisions for the failures of one job, in their order."""

    def __init__(
        self,
        strategy: RestartStrategyConfiguration,
        settings: DurabilitySettings,
        *,
        checkpointing_enabled: bool,
    ) -> None:
        self._is_default = False
        if isinstance(strategy, RestartStrategies.FallbackRestartStrategyConfiguration):
            configured = configured_strategy(settings)
            self._is_default = configured is None
            strategy = configured or _default_strategy(enabled=checkpointing_enabled)
        self.strategy = strategy
        self._restarts = 0
        self._recent: deque[int] = deque()
        self._failures_of_batch = 0

    @property
    def may_restart(self) -> bool:
        """True unless the strategy never restarts."""
        return not isinstance(self.strategy, RestartStrategies.NoRestartStrategyConfiguration)

    def delay_ms(self, failure: Failure) -> int | None:
        """Milliseconds until the restart; None: the job is not restarted."""
        if is_final(failure.error) or (self._is_default and self._keeps_failing(failure)):
            return None
        strategy = self.strategy
        if isinstance(strategy, RestartStrategies.FixedDelayRestartStrategyConfiguration):
            if self._restarts >= strategy.restart_attempts:
                return None
            self._restarts += 1
            return strategy.delay_ms
        if isinstance(strategy, RestartStrategies.FailureRateRestartStrategyConfiguration):
            self._recent.append(failure.at_ms)
            while self._recent[0] <= failure.at_ms - strategy.failure_interval_ms:
                self._recent.popleft()
            return strategy.delay_ms if len(self._recent) <= strategy.max_failure_rate else None
        return None

    def _keeps_failing(self, failure: Failure) -> bool:
        """True if a user function failed too often without a committed batch in between."""
        if failure.progressed or not isinstance(failure.error, JobError):
            self._failures_of_batch = 0
        self._failures_of_batch += isinstance(failure.error, JobError)
        return self._failures_of_batch >= FAILURES_OF_ONE_BATCH


def is_final(error: BaseException) -> bool:
    """True if the error would recur after a restart, or another driver owns the state."""
    if not isinstance(error, QueryableStateError):
        return False
    if error.reason == Reason.USER_FUNCTION_FAILED:
        return False
    return isinstance(error, JobError | InvalidRequestError) or error.reason == Reason.FENCED


def configured_strategy(settings: DurabilitySettings) -> RestartStrategyConfiguration | None:
    """The configured strategy; None if there is none."""
    name = settings.restart_strategy.strip().lower().replace("-", "").replace("_", "")
    if not name:
        return None
    if name in ("none", "off", "disable"):
        return RestartStrategies.no_restart()
    if name == "fixeddelay":
        return RestartStrategies.fixed_delay_restart(
            settings.restart_attempts, settings.restart_delay_ms
        )
    if name == "failurerate":
        return RestartStrategies.failure_rate_restart(
            settings.restart_max_failures,
            settings.restart_failure_interval_ms,
            settings.restart_failure_delay_ms,
        )
    raise InvalidRequestError(
        f"restart-strategy {settings.restart_strategy!r} is unknown: use none, fixed-delay or "
        "failure-rate"
    )


def _default_strategy(*, enabled: bool) -> RestartStrategyConfiguration:
    if not enabled:
        return RestartStrategies.no_restart()
    return RestartStrategies.fixed_delay_restart(UNLIMITED_ATTEMPTS, DEFAULT_DELAY_MS)


def _count(what: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequestError(f"{what} must be a whole number of at least 0, not {value!r}")
    return value


def _milliseconds(what: str, value: object) -> int:
    if isinstance(value, timedelta):
        value = round(value / timedelta(milliseconds=1))
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequestError(
            f"{what} must be milliseconds or a timedelta, and at least 0, not {value!r}"
        )
    return value
