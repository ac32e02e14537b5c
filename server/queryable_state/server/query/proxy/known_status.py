"""Status of jobs and servers as the coordinator answers it, or as it answered last."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.server.job_names import NamedJob, resolved_job
from queryable_state.server.query.router import DriverAwayError
from queryable_state.v1 import query_pb2, registration_pb2, status_pb2
from queryable_state.wire.calls.single_flight import SingleFlight
from queryable_state.wire.errors import QueryTimeoutError, UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

# Jobs whose last description is kept; the oldest are dropped.
_MOST_JOBS = 64

_AWAY = (DriverAwayError, QueryTimeoutError)

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Known(Generic[_T]):
    answer: _T
    at_s: float

    @property
    def age_ms(self) -> int:
        return max(1, round((time.monotonic() - self.at_s) * 1000))


class KnownStatus:
    """Asks the coordinator; if it does not answer, tells what it told last, with the age.

    Equal concurrent questions share one call. Answers are not to be modified.
    """

    def __init__(
        self,
        *,
        list_jobs: Callable[[], Awaitable[query_pb2.ListJobsResponse]],
        describe_job: Callable[
            [status_pb2.DescribeJobRequest], Coroutine[None, None, status_pb2.JobDescription]
        ],
        list_servers: Callable[
            [status_pb2.ListServersRequest], Coroutine[None, None, status_pb2.ListServersResponse]
        ],
    ) -> None:
        """The functions ask the coordinator; they raise `DriverAwayError` if it does not answer."""
        self._list_jobs = list_jobs
        self._describe_job = describe_job
        self._list_servers = list_servers
        self._described: dict[bytes, _Known[status_pb2.JobDescription]] = {}
        self._servers: _Known[status_pb2.ListServersResponse] | None = None
        self._jobs: _Known[query_pb2.ListJobsResponse] | None = None
        self._descriptions: SingleFlight[tuple[str, bool], status_pb2.JobDescription] = (
            SingleFlight()
        )
        self._lists: SingleFlight[str, status_pb2.ListServersResponse] = SingleFlight()

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """The jobs; with `allow_stale` those that were known last if the driver is away."""
        try:
            answer = await self._list_jobs()
        except _AWAY:
            if not request.allow_stale or self._jobs is None:
                raise
            return _unreachable_jobs(self._jobs)
        self._jobs = _Known(answer, time.monotonic())
        return answer

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """What is known of a job; if the driver is away, what was known last."""
        try:
            answer = await self._descriptions.run(
                (request.job, request.with_history), lambda: self._describe_job(request)
            )
        except _AWAY:
            known = self._described.get(self._known_job(request.job))
            if known is None:
                raise
            return _unreachable_job(known, with_history=request.with_history)
        job_id = answer.info.job_id
        before = self._described.pop(job_id, None)
        if not request.with_history and before is not None and before.answer.history:
            kept = status_pb2.JobDescription()
            kept.CopyFrom(answer)
            kept.history.extend(before.answer.history)
            self._described[job_id] = _Known(kept, time.monotonic())
        else:
            self._described[job_id] = _Known(answer, time.monotonic())
        if len(self._described) > _MOST_JOBS:
            del self._described[next(iter(self._described))]
        return answer

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """The state servers; if the driver is away, those that were known last."""
        try:
            answer = await self._lists.run("", lambda: self._list_servers(request))
        except _AWAY:
            if self._servers is None:
                raise
            stale = status_pb2.ListServersResponse()
            stale.CopyFrom(self._servers.answer)
            stale.age_ms = self._servers.age_ms
            return stale
        self._servers = _Known(answer, time.monotonic())
        return answer

    async def aclose(self) -> None:
        """Cancels pending calls; idempotent."""
        await self._descriptions.aclose()
        await self._lists.aclose()

    def _known_job(self, text: str) -> bytes:
        """The id of a described job that a text names; empty if there is none."""
        infos = [known.answer.info for known in self._described.values()]
        if not text:
            return _only([info.job_id for info in infos])
        named = (
            NamedJob(info.job_id, info.name, info.status == registration_pb2.RUNNING)
            for info in infos
        )
        try:
            return resolved_job(text, named)
        except UnknownJobError:
            return b""


def _only(job_ids: list[bytes]) -> bytes:
    return job_ids[0] if len(job_ids) == 1 else b""


def _unreachable_job(
    known: _Known[status_pb2.JobDescription], *, with_history: bool
) -> status_pb2.JobDescription:
    stale = status_pb2.JobDescription()
    stale.CopyFrom(known.answer)
    stale.age_ms = known.age_ms
    if not with_history:
        del stale.history[:]
    finding = driver_unreachable(known.age_ms, stale.as_of_ms)
    others = [status_pb2.Finding.FromString(each.SerializeToString()) for each in stale.findings]
    del stale.findings[:]
    stale.findings.extend([finding, *others])
    stale.info.health = registration_pb2.JobInfo.UNREACHABLE
    stale.info.problem = finding.message
    return stale


def _unreachable_jobs(known: _Known[query_pb2.ListJobsResponse]) -> query_pb2.ListJobsResponse:
    stale = query_pb2.ListJobsResponse()
    stale.CopyFrom(known.answer)
    for info in stale.jobs:
        info.health = registration_pb2.JobInfo.UNREACHABLE
        info.problem = driver_unreachable(known.age_ms, 0).message
    return stale


def driver_unreachable(age_ms: int, since_ms: int) -> status_pb2.Finding:
    """The finding of a proxy whose coordinator does not answer."""
    return status_pb2.Finding(
        code="DRIVER_UNREACHABLE",
        severity=status_pb2.Finding.ERROR,
        since_ms=since_ms,
        message=(
            "The driver of the job does not answer; these facts are "
            f"{max(1, round(age_ms / 1000))} s old."
        ),
        next_step=(
            "Check the driver's process and its machine (the log of this proxy names its address), "
            "and start the job again with the same checkpoint location if it has ended."
        ),
    )
