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
        # A clock set back must not put the next one off.
        self._started_s = now_s - max(0.0, last_age_s)
        self._ended_s = float("-inf")
        self._started_before_s = self._started_s
        self._version = version
        self._failures = 0
        self._missed = 0
        self._ended = False

    def due_in_s(self, now_s: float, committed: int) -> float | None:
        """How long to wait for the next one; None: until something newer is committed, or ever."""
        if self._interval_s <= 0 or self._ended or committed <= self._version:
            return None
        due_s = max(self._started_s + self._interval_s, self._ended_s + self._min_pause_s)
        return max(0.0, due_s - now_s)

    def start(self, now_s: float) -> None:
        """One is begun."""
        self._started_before_s, self._started_s = self._started_s, now_s

    def complete(self, now_s: float, version: int) -> None:
        """The one begun is complete, as of this version."""
        self._ended_s = now_s
        self._version = max(self._version, version)
        self._failures = self._missed = 0

    def put_off(self, version: int) -> None:
        """The one begun was declined or interrupted: nothing is wrong with its storage."""
        self._started_s = self._started_before_s
        self._version = max(self._version, version)

    def miss(self) -> int:
        """One that was due was put off; how often in a row that is so."""
        self._missed += 1
        return self._missed

    def fail(self, now_s: float) -> bool:
        """The one begun has failed; whether that is more than the job tolerates."""
        self._ended_s = now_s
        self._failures += 1
        return 0 <= self._tolerable_failures < self._failures

    def end(self) -> None:
        """The run is told to end, which takes its time: none is due any more."""
        self._ended = True
