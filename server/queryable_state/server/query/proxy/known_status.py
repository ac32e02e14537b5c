"""Status of jobs and servers as the coordinator answers it, or as it answered last."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.server.job_names import NamedJob, only_job, resolved_job
from queryable_state.server.query.router import DriverAwayError
from queryable_state.server.status_texts import clock_text
from queryable_state.v1 import query_pb2, registration_pb2, status_pb2
from queryable_state.wire.calls.single_flight import SingleFlight
from queryable_state.wire.errors import QueryableStateError, QueryTimeoutError, UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

# Jobs whose last description is kept; the oldest are dropped.
_MOST_JOBS = 64
# Age at which the description of a running job is refreshed without a question.
_REFRESH_S = 5.0

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
        driver_address: Callable[[], str],
    ) -> None:
        """The functions ask the coordinator; they raise `DriverAwayError` if it does not answer.

        `driver_address` is its HOST:PORT.
        """
        self._driver_address = driver_address
        self._answered_s = time.monotonic()
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
            return self._unreachable_jobs(self._jobs)
        self._jobs = self._known(answer)
        return answer

    async def refresh(self, jobs: query_pb2.ListJobsResponse) -> None:
        """Keeps a list of jobs that the coordinator answered now, describes those that run, and
        lists the servers.

        So a process that nobody asked before the driver went away can tell what was known.
        """
        self._jobs = self._known(jobs)
        running = [job for job in jobs.jobs if job.status == registration_pb2.RUNNING]
        for job in running[:_MOST_JOBS]:
            known = self._described.get(job.job_id)
            if known is not None and known.age_ms < _REFRESH_S * 1000:
                continue
            try:
                await self.describe_job(status_pb2.DescribeJobRequest(job=job.job_id.hex()))
            except QueryableStateError:
                # It was dropped meanwhile, or the driver went away: the next call tells.
                continue
        if self._servers is None or self._servers.age_ms >= _REFRESH_S * 1000:
            with contextlib.suppress(QueryableStateError):
                await self.list_servers(status_pb2.ListServersRequest())

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """What is known of a job; if the driver is away, what was known last."""
        try:
            answer = await self._descriptions.run(
                (request.job, request.with_history), lambda: self._describe_job(request)
            )
        except _AWAY:
            known = self._last_known(request.job)
            if known is None:
                raise
            return self._unreachable_job(known, with_history=request.with_history)
        job_id = answer.info.job_id
        before = self._described.pop(job_id, None)
        if not request.with_history and before is not None and before.answer.history:
            kept = status_pb2.JobDescription()
            kept.CopyFrom(answer)
            kept.history.extend(before.answer.history)
            self._described[job_id] = self._known(kept)
        else:
            self._described[job_id] = self._known(answer)
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
        self._servers = self._known(answer)
        return answer

    async def aclose(self) -> None:
        """Cancels pending calls; idempotent."""
        await self._descriptions.aclose()
        await self._lists.aclose()

    def _last_known(self, text: str) -> _Known[status_pb2.JobDescription] | None:
        """What is known of the job that a text names, at least what the list of jobs says."""
        infos = {known.answer.info.job_id: known.answer.info for known in self._described.values()}
        if self._jobs is not None:
            infos |= {info.job_id: info for info in self._jobs.answer.jobs}
        job_id = _named(text, list(infos.values()))
        if job_id in self._described or job_id not in infos or self._jobs is None:
            return self._described.get(job_id)
        info = infos[job_id]
        last_batch = status_pb2.BatchTimes(batch_id=info.committed_batch, running_batch_id=-1)
        return _Known(status_pb2.JobDescription(info=info, last_batch=last_batch), self._jobs.at_s)

    def _known(self, answer: _T) -> _Known[_T]:
        self._answered_s = time.monotonic()
        return _Known(answer, self._answered_s)

    def _unreachable_job(
        self, known: _Known[status_pb2.JobDescription], *, with_history: bool
    ) -> status_pb2.JobDescription:
        stale = status_pb2.JobDescription()
        stale.CopyFrom(known.answer)
        stale.age_ms = known.age_ms
        if not with_history:
            del stale.history[:]
        if stale.info.status != registration_pb2.RUNNING:
            # Its end is known, and needs no driver.
            return stale
        finding = driver_unreachable(
            self._driver_address(), time.monotonic() - self._answered_s, known.answer
        )
        del stale.findings[:]
        stale.findings.extend([finding, *known.answer.findings])
        stale.info.health = registration_pb2.JobInfo.UNREACHABLE
        stale.info.problem = finding.message
        return stale

    def _unreachable_jobs(
        self, known: _Known[query_pb2.ListJobsResponse]
    ) -> query_pb2.ListJobsResponse:
        stale = query_pb2.ListJobsResponse()
        stale.CopyFrom(known.answer)
        away_s = time.monotonic() - self._answered_s
        for info in stale.jobs:
            if info.status == registration_pb2.RUNNING:
                described = self._described.get(info.job_id)
                finding = driver_unreachable(
                    self._driver_address(),
                    away_s,
                    None if described is None else described.answer,
                )
                info.health = registration_pb2.JobInfo.UNREACHABLE
                info.problem = finding.message
        return stale


def _named(text: str, infos: list[registration_pb2.JobInfo]) -> bytes:
    """The id of the job that a text names; empty if there is none."""
    named = [
        NamedJob(info.job_id, info.name, info.status == registration_pb2.RUNNING) for info in infos
    ]
    try:
        return resolved_job(text, named) if text else only_job(named)
    except UnknownJobError:
        return b""


def driver_unreachable(
    address: str, away_s: float, known: status_pb2.JobDescription | None
) -> status_pb2.Finding:
    """The finding of a proxy whose coordinator does not answer."""
    since_ms = round((time.time() - away_s) * 1000)
    at = f" at {address}" if address else ""
    batch = f", its last known batch is {known.last_batch.batch_id}" if known else ""
    checkpoints = known.checkpoints if known else status_pb2.CheckpointStatus()
    if checkpoints.HasField("last_completed"):
        meanwhile = (
            f"; until then `queryable-state serve --checkpoint {checkpoints.root}` answers its "
            f"state as of batch {checkpoints.last_completed.batch_id}"
        )
    else:
        meanwhile = ""
    return status_pb2.Finding(
        code="DRIVER_UNREACHABLE",
        severity=status_pb2.Finding.ERROR,
        since_ms=since_ms,
        message=(
            f"The driver of the job{at} has not answered since {clock_text(since_ms)}{batch}; "
            "without it no batch runs, and state is answered only until the leases of the state "
            "servers end."
        ),
        next_step=(
            "Look whether the driver's process and machine run; if it has ended, start the job "
            f"again with the same checkpoint location{meanwhile}."
        ),
    )
