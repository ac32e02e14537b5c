"""How often and how strictly a job is checkpointed: PyFlink's CheckpointConfig."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming.config.durability_settings import DurabilitySettings

_E = TypeVar("_E", bound=IntEnum)
_LEAST_TIME_MS = 10
_ANY_NUMBER = 2**31 - 1


class CheckpointingMode(IntEnum):
    """What a job promises of a record after a failure.

    Both run the same protocol: Spark never replays a batch it has committed, so that anything
    weaker than exactly-once would lose records.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointCleanup(IntEnum):
    """What becomes of a job's checkpoints when it is cancelled; a job that fails keeps them."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1


class CheckpointConfig:
    """The checkpointing of the jobs an environment starts; what is set later counts for later jobs.

    What a batch changes is durable with the batch, whatever is set here. A checkpoint is what that
    is folded into, so that a restart has less to read.
    """

    DEFAULT_MODE: Final = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT: Final = 10 * 60 * 1000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS: Final = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS: Final = 1

    def __init__(self) -> None:
        self._interval_ms = -1
        self._mode = self.DEFAULT_MODE
        self._timeout_ms = self.DEFAULT_TIMEOUT
        self._min_pause_ms = self.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS
        self._max_concurrent = self.DEFAULT_MAX_CONCURRENT_CHECKPOINTS
        self._tolerable_failures: int | None = None
        self._fail_on_errors = True
        self._cleanup: ExternalizedCheckpointCleanup | None = None
        self._prefer_checkpoint = False
        self._unaligned = False

    @classmethod
    def of(cls, settings: DurabilitySettings) -> CheckpointConfig:
        """What is configured, for a job to change."""
        config = cls()
        if settings.checkpoint_interval_ms:
            config.set_checkpoint_interval(settings.checkpoint_interval_ms)
        config.set_checkpointing_mode(_named(CheckpointingMode, settings.checkpointing_mode))
        config.set_checkpoint_timeout(settings.checkpoint_timeout_ms)
        config.set_min_pause_between_checkpoints(settings.min_pause_ms)
        config.set_max_concurrent_checkpoints(settings.max_concurrent_checkpoints)
        if settings.tolerable_failed_checkpoints >= 0:
            config.set_tolerable_checkpoint_failure_number(settings.tolerable_failed_checkpoints)
        if settings.externalized_retention:
            config.enable_externalized_checkpoints(
                _named(ExternalizedCheckpointCleanup, settings.externalized_retention)
            )
        config.set_prefer_checkpoint_for_recovery(settings.prefer_checkpoint_for_recovery)
        return config

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval is set. Without one, state that has a lasting place is checkpointed
        once a minute all the same, and failures of that are only logged."""
        return self._interval_ms > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """As set."""
        return self._mode

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> None:
        """The promise; both run the same protocol."""
        mode = _checked(CheckpointingMode, checkpointing_mode)
        if self._unaligned and mode is not CheckpointingMode.EXACTLY_ONCE:
            raise InvalidRequestError("unaligned checkpoints are for EXACTLY_ONCE only")
        self._mode = mode

    def get_checkpoint_interval(self) -> int:
        """Milliseconds; -1: not set."""
        return self._interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: int) -> None:
        """Milliseconds from one checkpoint's beginning to the next one's."""
        self._interval_ms = _at_least("checkpoint interval", checkpoint_interval, _LEAST_TIME_MS)

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds."""
        return self._timeout_ms

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> None:
        """Milliseconds after which a checkpoint has failed."""
        self._timeout_ms = _at_least("checkpoint timeout", checkpoint_timeout, _LEAST_TIME_MS)

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds."""
        return self._min_pause_ms

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> None:
        """Milliseconds from one checkpoint's end to the next one's beginning, at least."""
        self._min_pause_ms = _at_least("minimum pause", min_pause_between_checkpoints, 0)

    def get_max_concurrent_checkpoints(self) -> int:
        """As set."""
        return self._max_concurrent

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> None:
        """At most so many at a time. There is never more than one: a second one would only take
        the disk from the first, as what a batch changes is durable before either ends."""
        self._max_concurrent = _at_least(
            "number of concurrent checkpoints", max_concurrent_checkpoints, 1
        )

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether a checkpoint that fails fails the job."""
        return self._fail_on_errors

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> None:
        """Whether a checkpoint that fails fails the job.

        Without effect where a tolerable number is set.
        """
        self._fail_on_errors = bool(fail_on_checkpointing_errors)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Checkpoints that may fail in a row; one more fails the job."""
        if self._tolerable_failures is not None:
            return self._tolerable_failures
        return 0 if self._fail_on_errors else _ANY_NUMBER

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> None:
        """Checkpoints that may fail in a row; one more fails the job."""
        self._tolerable_failures = _at_least(
            "tolerable number of failed checkpoints", tolerable_checkpoint_failure_number, 0
        )

    @property
    def tolerable_failures(self) -> int:
        """Checkpoints that may fail in a row; -1: any number, as where nothing asks for them."""
        if self._tolerable_failures is None and not self.is_checkpointing_enabled():
            return -1
        number = self.get_tolerable_checkpoint_failure_number()
        return -1 if number >= _ANY_NUMBER else number

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointCleanup) -> None:
        """What becomes of the checkpoints of a job that is cancelled; not set, they are kept."""
        self._cleanup = _checked(ExternalizedCheckpointCleanup, cleanup_mode)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether that is set."""
        return self._cleanup is not None

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointCleanup | None:
        """As set; None: not set."""
        return self._cleanup

    def is_prefer_checkpoint_for_recovery(self) -> bool:
        """Whether recovery reads a checkpoint although there is a savepoint that is newer."""
        return self._prefer_checkpoint

    def set_prefer_checkpoint_for_recovery(self, prefer_checkpoint_for_recovery: bool) -> None:
        """Whether recovery reads a checkpoint although there is a savepoint that is newer.

        What is recovered is the same: the changelogs since then make up the difference.
        """
        self._prefer_checkpoint = bool(prefer_checkpoint_for_recovery)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """As set."""
        return self._unaligned

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> None:
        """Accepted, without effect: between two batches nothing is under way that could be held
        up or would have to be stored."""
        if enabled and self._mode is not CheckpointingMode.EXACTLY_ONCE:
            raise InvalidRequestError("unaligned checkpoints are for EXACTLY_ONCE only")
        self._unaligned = bool(enabled)

    def disable_unaligned_checkpoints(self) -> None:
        """The opposite of `enable_unaligned_checkpoints`."""
        self._unaligned = False


def _at_least(what: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidRequestError(
            f"the {what} is a whole number of at least {least}, not {value!r}"
        )
    return value


def _checked(kind: type[_E], value: int) -> _E:
    try:
        return kind(value)
    except ValueError:
        raise InvalidRequestError(f"{value!r} is none of {_names(kind)}") from None


def _named(kind: type[_E], name: str) -> _E:
    try:
        return kind[name.strip().upper()]
    except KeyError:
        raise InvalidRequestError(f"{name!r} is none of {_names(kind)}") from None


def _names(kind: type[IntEnum]) -> str:
    return ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
