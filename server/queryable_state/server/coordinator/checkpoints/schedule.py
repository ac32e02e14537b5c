"""Schedule of a job's checkpoints, and its limit of failed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.job_config import JobConfig


class CheckpointSchedule:
    """The times of one run of a job, in monotonic seconds the caller tells. Not thread-safe.

    Periods count from start to start, pauses from end to start. An attempt that was declined,
    or interrupted, is made again as soon as a newer batch is committed.
    """

    def __init__(self, config: JobConfig, now_s: float, *, last_age_s: float, version: int) -> None:
        """`last_age_s`: since the newest checkpoint of the root was begun, one as of `version`.

        A root without one is as old as its run, `version` then is -1.
        """
        self._interval_s = config.checkpoint_interval_ms / 1000
        self._min_pause_s = config.min_pause_ms / 1000
        self._tolerable_failures = config.tolerable_failures
        # A clock that was set back must not delay the next checkpoint.
        self._started_s = now_s - max(0.0, last_age_s)
        self._ended_s = float("-inf")
        self._started_before_s = self._started_s
        self._version = version
        self._failures = 0
        self._missed = 0
        self._ended = False

    def due_in_s(self, now_s: float, committed: int) -> float | None:
        """Seconds until the next one is due; None: not before a newer commit, or never."""
        if self._interval_s <= 0 or self._ended or committed <= self._version:
            return None
        due_s = max(self._started_s + self._interval_s, self._ended_s + self._min_pause_s)
        return max(0.0, due_s - now_s)

    def start(self, now_s: float) -> None:
        """Records the begin of a checkpoint."""
        self._started_before_s, self._started_s = self._started_s, now_s

    def complete(self, now_s: float, version: int) -> None:
        """Records the checkpoint in progress as complete, at this version."""
        self._ended_s = now_s
        self._version = max(self._version, version)
        self._failures = self._missed = 0

    def put_off(self, version: int) -> None:
        """Records the one in progress as declined or interrupted, not by its storage."""
        self._started_s = self._started_before_s
        self._version = max(self._version, version)

    def miss(self) -> int:
        """Records that a due one was put off; returns how often in a row."""
        self._missed += 1
        return self._missed

    def fail(self, now_s: float) -> bool:
        """Records the one in progress as failed; True if the job tolerates no more."""
        self._ended_s = now_s
        self._failures += 1
        return 0 <= self._tolerable_failures < self._failures

    def end(self) -> None:
        """Makes no further checkpoint due, because the run is being stopped."""
        self._ended = True
