"""Checkpoint configuration of jobs: PyFlink's CheckpointConfig."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, Self, TypeVar

from queryable_state.server.settings.durability_settings import (
    CheckpointingMode,
    ExternalizedCheckpointCleanup,
)
from queryable_state.streaming.config.durations import Duration
from queryable_state.streaming.config.state_backends import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Container
    from enum import IntEnum

    from queryable_state.server.settings.durability_settings import DurabilitySettings

_E = TypeVar("_E", bound="IntEnum")
_LEAST_TIME_MS = 10
_ANY_NUMBER = 2**31 - 1


class CheckpointConfig:
    """Checkpoint settings of the jobs an environment starts; a change applies to later jobs.

    The changelog makes each batch durable when it commits, independent of these settings. A
    checkpoint compacts the changelog, so that a restart reads less.
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
        self._force_unaligned = False
        self._alignment_timeout = Duration()
        self._storage: CheckpointStorage | None = None

    @classmethod
    def of(cls, settings: DurabilitySettings) -> CheckpointConfig:
        """A configuration with the values of the settings."""
        config = cls()
        config.configure(settings, {field.name for field in dataclasses.fields(settings)})
        return config

    def configure(self, settings: DurabilitySettings, fields: Container[str]) -> None:
        """Applies some fields of the settings."""
        if "checkpoint_interval_ms" in fields and settings.checkpoint_interval_ms:
            self.set_checkpoint_interval(settings.checkpoint_interval_ms)
        if "checkpointing_mode" in fields:
            self.set_checkpointing_mode(_named(CheckpointingMode, settings.checkpointing_mode))
        if "checkpoint_timeout_ms" in fields:
            self.set_checkpoint_timeout(settings.checkpoint_timeout_ms)
        if "min_pause_ms" in fields:
            self.set_min_pause_between_checkpoints(settings.min_pause_ms)
        if "max_concurrent_checkpoints" in fields:
            self.set_max_concurrent_checkpoints(settings.max_concurrent_checkpoints)
        failures = settings.tolerable_failed_checkpoints
        if "tolerable_failed_checkpoints" in fields and failures >= 0:
            self.set_tolerable_checkpoint_failure_number(failures)
        if "externalized_retention" in fields and settings.externalized_retention:
            self.enable_externalized_checkpoints(
                _named(ExternalizedCheckpointCleanup, settings.externalized_retention)
            )
        if "prefer_checkpoint_for_recovery" in fields:
            self.set_prefer_checkpoint_for_recovery(settings.prefer_checkpoint_for_recovery)

    def is_checkpointing_enabled(self) -> bool:
        """True if an interval is set. Without one, state with a durable location is still
        checkpointed once a minute, and failures of these checkpoints are only logged."""
        return self._interval_ms > 0

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode that was set."""
        return self._mode

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> Self:
        """Sets the mode; both modes run the same protocol."""
        mode = _checked(CheckpointingMode, checkpointing_mode)
        if self._unaligned and mode is not CheckpointingMode.EXACTLY_ONCE:
            raise InvalidRequestError("unaligned checkpoints are for EXACTLY_ONCE only")
        self._mode = mode
        return self

    def get_checkpoint_interval(self) -> int:
        """The interval in milliseconds; -1: not set."""
        return self._interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: int) -> Self:
        """Sets the milliseconds between the starts of two checkpoints."""
        self._interval_ms = _at_least("checkpoint interval", checkpoint_interval, _LEAST_TIME_MS)
        return self

    def get_checkpoint_timeout(self) -> int:
        """The timeout in milliseconds."""
        return self._timeout_ms

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> Self:
        """Sets the milliseconds after which a running checkpoint fails."""
        self._timeout_ms = _at_least("checkpoint timeout", checkpoint_timeout, _LEAST_TIME_MS)
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        """The minimum pause in milliseconds."""
        return self._min_pause_ms

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> Self:
        """Sets the minimum milliseconds between the end of a checkpoint and the next start."""
        self._min_pause_ms = _at_least("minimum pause", min_pause_between_checkpoints, 0)
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        """The number that was set."""
        return self._max_concurrent

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> Self:
        """Sets the maximum number of concurrent checkpoints.

        There is never more than one: batches are durable without checkpoints, so a second one
        would only compete with the first for the disk.
        """
        self._max_concurrent = _at_least(
            "number of concurrent checkpoints", max_concurrent_checkpoints, 1
        )
        return self

    def is_fail_on_checkpointing_errors(self) -> bool:
        """True if a failed checkpoint fails the job."""
        return self._fail_on_errors

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> Self:
        """Sets whether a failed checkpoint fails the job.

        Has no effect if a tolerable number of failures is set.
        """
        self._fail_on_errors = bool(fail_on_checkpointing_errors)
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Number of consecutive checkpoints that may fail; one more fails the job."""
        if self._tolerable_failures is not None:
            return self._tolerable_failures
        return 0 if self._fail_on_errors else _ANY_NUMBER

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> Self:
        """Sets the number of consecutive checkpoints that may fail; one more fails the job."""
        self._tolerable_failures = _at_least(
            "tolerable number of failed checkpoints", tolerable_checkpoint_failure_number, 0
        )
        return self

    @property
    def tolerable_failures(self) -> int:
        """Consecutive checkpoints that may fail; -1: unlimited, the default without an interval."""
        if self._tolerable_failures is None and not self.is_checkpointing_enabled():
            return -1
        number = self.get_tolerable_checkpoint_failure_number()
        return -1 if number >= _ANY_NUMBER else number

    def enable_externalized_checkpoints(self, cleanup_mode: ExternalizedCheckpointCleanup) -> Self:
        """Sets the cleanup of a cancelled job's checkpoints; by default they are kept."""
        self._cleanup = _checked(ExternalizedCheckpointCleanup, cleanup_mode)
        return self

    def set_externalized_checkpoint_cleanup(
        self, cleanup_mode: ExternalizedCheckpointCleanup
    ) -> Self:
        """Same as `enable_externalized_checkpoints`."""
        return self.enable_externalized_checkpoints(cleanup_mode)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointCleanup
    ) -> Self:
        """Same as `enable_externalized_checkpoints`."""
        return self.enable_externalized_checkpoints(retention_mode)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """True if a cleanup mode is set."""
        none = (None, ExternalizedCheckpointCleanup.NO_EXTERNALIZED_CHECKPOINTS)
        return self._cleanup not in none

    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointCleanup | None:
        """The cleanup mode that was set; None: not set."""
        return self._cleanup

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointCleanup | None:
        """Same as `get_externalized_checkpoint_cleanup`."""
        return self._cleanup

    def is_prefer_checkpoint_for_recovery(self) -> bool:
        """True if recovery reads a checkpoint even if a newer savepoint exists."""
        return self._prefer_checkpoint

    def set_prefer_checkpoint_for_recovery(self, prefer_checkpoint_for_recovery: bool) -> Self:
        """Sets whether recovery reads a checkpoint even if a newer savepoint exists.

        The recovered state is the same: recovery replays the changelogs since the checkpoint.
        """
        self._prefer_checkpoint = bool(prefer_checkpoint_for_recovery)
        return self

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """The value that was set."""
        return self._unaligned

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> Self:
        """Accepted without effect: a checkpoint is taken between two batches, when no records are
        in flight."""
        if enabled and self._mode is not CheckpointingMode.EXACTLY_ONCE:
            raise InvalidRequestError("unaligned checkpoints are for EXACTLY_ONCE only")
        self._unaligned = bool(enabled)
        return self

    def disable_unaligned_checkpoints(self) -> Self:
        """Same as `enable_unaligned_checkpoints(False)`."""
        self._unaligned = False
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """The value that was set."""
        return self._force_unaligned

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> Self:
        """Accepted without effect; see `enable_unaligned_checkpoints`."""
        self._force_unaligned = bool(force_unaligned_checkpoints)
        return self

    def get_alignment_timeout(self) -> Duration:
        """The value that was set."""
        return self._alignment_timeout

    def set_alignment_timeout(self, alignment_timeout: Duration) -> Self:
        """Accepted without effect; see `enable_unaligned_checkpoints`."""
        self._alignment_timeout = alignment_timeout
        return self

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """The storage that was set; None: `state.checkpoint-storage`."""
        return self._storage

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> Self:
        """Sets the location of checkpoints; a state backend with a location takes precedence."""
        if not isinstance(storage, CheckpointStorage):
            raise InvalidRequestError(
                f"{storage!r} is not a checkpoint storage: create a FileSystemCheckpointStorage or "
                "a JobManagerCheckpointStorage"
            )
        self._storage = storage
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> Self:
        """Sets the directory of checkpoints, as `FileSystemCheckpointStorage(path)`."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))


def _at_least(what: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidRequestError(
            f"the {what} must be a whole number of at least {least}, not {value!r}"
        )
    return value


def _checked(kind: type[_E], value: int) -> _E:
    try:
        return kind(value)
    except ValueError:
        raise InvalidRequestError(f"{value!r} is not one of {_names(kind)}") from None


def _named(kind: type[_E], name: str) -> _E:
    try:
        return kind[name.strip().upper()]
    except KeyError:
        raise InvalidRequestError(f"{name!r} is not one of {_names(kind)}") from None


def _names(kind: type[IntEnum]) -> str:
    return ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
