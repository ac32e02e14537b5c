"""Facts of one job that the rules of findings read, and the health they add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.status.findings.job_pace import Pace
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.coordinator.model.departed.departures import Departure, Succession
    from queryable_state.server.coordinator.status.job_facts import DamagedFile
    from queryable_state.v1 import status_pb2


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The facts that the rules read."""

    description: status_pb2.JobDescription
    now_ms: int
    failing_since_ms: int = 0
    attempt: status_pb2.JobError | None = None
    """The newest failed attempt at a task of the batch in flight; its count is that of all."""
    attempts_since_ms: int = 0
    restart_at_ms: int = 0
    restarts_watched: bool = False
    """A restart strategy decides on failures: it has attempts left, or has yet to decide."""
    committed_at_ms: int = 0
    pace: Pace = field(default_factory=Pace)
    refusal: str = ""
    """Why the newest run was refused; empty: it was not."""
    expects_watermark: bool = False
    """The job has state with windows or event-time timers."""
    damaged: Sequence[DamagedFile] = ()
    departures: Sequence[tuple[Departure, Succession]] = ()
    """Lost servers that had state of the job, newest first."""

    @property
    def restarts_itself(self) -> bool:
        """The job needs no start by hand, as far as is known."""
        return self.restarts_watched or self.restart_at_ms > 0

    @property
    def is_running(self) -> bool:
        return self.description.info.status == registration_pb2.RUNNING


def health_of(
    situation: Situation, findings: Sequence[status_pb2.Finding]
) -> registration_pb2.JobInfo.Health.ValueType:
    """The state of the job in one word."""
    health = registration_pb2.JobInfo
    status = situation.description.info.status
    if status == registration_pb2.FAILED:
        return health.RESTARTING if situation.restarts_itself else health.FAILING
    if status == registration_pb2.FINISHED:
        # A run that failed is reported as ended first, and its cause a moment later.
        if situation.restart_at_ms:
            return health.RESTARTING
        if not situation.failing_since_ms:
            return health.ENDED
        return health.RESTARTING if situation.restarts_watched else health.FAILING
    if situation.refusal:
        return health.FAILING
    if situation.failing_since_ms:
        return health.RESTARTING
    return health.ATTENTION if findings else health.HEALTHY
