"""Status of jobs and servers as far as a caller may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.job_names import NamedJob, only_job
from queryable_state.server.query.router import DriverAwayError
from queryable_state.server.security.access.grants import StateName
from queryable_state.v1 import query_pb2, registration_pb2, status_pb2
from queryable_state.wire.errors import QueryableStateError, QueryTimeoutError

if TYPE_CHECKING:
    from queryable_state.server.query.router import Router
    from queryable_state.server.security.access.caller import Caller
    from queryable_state.server.security.visible_states import VisibleStates

_AWAY = (DriverAwayError, QueryTimeoutError)

_HIDDEN = "A run of the job has failed; a grant on all states of the job shows the cause."
# Instead of texts that may quote records, keys, callers, addresses, and exceptions of user
# functions.
_HIDDEN_TEXTS = {
    "JOB_FAILED": _HIDDEN,
    "JOB_RESTARTING": _HIDDEN,
    "POISON_RECORD": _HIDDEN,
    "HOT_KEY": "One key is touched far more often than others.",
    "CLIENT_LIMITED": "A client reaches its limits.",
    "DRIVER_UNREACHABLE": "The driver of the job does not answer.",
}


class VisibleJobs:
    """Jobs and servers for one caller.

    A caller sees a job with at least one state that it may see. Texts of errors, which may quote
    records, need a grant on all states of the job.
    """

    def __init__(self, router: Router, states: VisibleStates) -> None:
        self._router = router
        self._states = states

    async def list(
        self, caller: Caller, request: query_pb2.ListJobsRequest
    ) -> query_pb2.ListJobsResponse:
        """The jobs that the caller may see, with the names of their visible states."""
        response = await self._router.list_jobs(request)
        answer = query_pb2.ListJobsResponse()
        for job in response.jobs:
            names = _visible_names(caller, job)
            whole = caller.grants.lists_all_of(job.name, job.job_id.hex())
            if names or whole:
                # A copy: other callers have the same response.
                answer.jobs.append(job)
                answer.jobs[-1].states[:] = names
                if not whole:
                    _hide_problem(answer.jobs[-1])
        return answer

    async def describe(
        self, caller: Caller, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """The description of a job that the caller may see."""
        asked = status_pb2.DescribeJobRequest()
        asked.CopyFrom(request)
        if not request.job and not caller.grants.lists_unknown("", "*"):
            jobs = (await self.list(caller, query_pb2.ListJobsRequest(allow_stale=True))).jobs
            named = (
                NamedJob(job.job_id, job.name, job.status == registration_pb2.RUNNING)
                for job in jobs
            )
            asked.job = only_job(named).hex()
        try:
            description = await self._router.describe_job(asked)
        except _AWAY:
            raise
        except QueryableStateError:
            if caller.grants.lists_unknown("", "*"):
                raise
            raise self._states.hidden(caller, request.job, "") from None
        info = description.info
        if caller.grants.lists_all_of(info.name, info.job_id.hex()):
            return description
        visible = _visible_names(caller, info)
        if not visible:
            raise self._states.hidden(caller, request.job, "")
        return _restricted(description, set(visible))

    async def servers(
        self, caller: Caller, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """The state servers, for a caller that may see any state."""
        if not caller.grants.any:
            raise self._states.hidden(caller, "", "")
        response = await self._router.list_servers(request)
        if caller.grants.lists_unknown("", "*"):
            return response
        answer = status_pb2.ListServersResponse()
        answer.CopyFrom(response)
        for server in answer.servers:
            server.most_refused = ""
        return answer


def _restricted(
    description: status_pb2.JobDescription, visible: set[str]
) -> status_pb2.JobDescription:
    """A copy with visible states only, and without texts that may quote records."""
    answer = status_pb2.JobDescription()
    answer.CopyFrom(description)
    answer.info.states[:] = [name for name in answer.info.states if name in visible]
    for operator in answer.operators:
        operator.states[:] = [name for name in operator.states if name in visible]
    for error in (answer.last_error, *answer.errors):
        for field in ("message", "key_json", "record", "traceback"):
            error.ClearField(field)
    if not description.HasField("last_error"):
        answer.ClearField("last_error")
    for finding in answer.findings:
        if finding.code in _HIDDEN_TEXTS:
            finding.message = _HIDDEN_TEXTS[finding.code]
    answer.info.problem = answer.findings[0].message if answer.findings else ""
    return answer


def _visible_names(caller: Caller, job: registration_pb2.JobInfo) -> list[str]:
    job_id = job.job_id.hex()
    return [name for name in job.states if caller.grants.kinds(StateName(job_id, job.name, name))]


def _hide_problem(info: registration_pb2.JobInfo) -> None:
    health = registration_pb2.JobInfo
    if info.health in {health.FAILING, health.RESTARTING}:
        info.problem = _HIDDEN
    elif info.health == health.UNREACHABLE:
        info.problem = _HIDDEN_TEXTS["DRIVER_UNREACHABLE"]
    elif info.health == health.ATTENTION:
        info.problem = "A finding needs attention: `queryable-state status JOB` shows it."
