"""States that a caller may see, found without telling it of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.job_names import job_id_of, job_label
from queryable_state.server.query.router import DriverAwayError
from queryable_state.server.security.access.grants import Kind
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    AmbiguousJobError,
    QueryableStateError,
    QueryTimeoutError,
    RetryLaterError,
    UnknownJobError,
    UnknownStateError,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.query.router import Router
    from queryable_state.server.security.access.access_control import AccessControl
    from queryable_state.server.security.access.caller import Caller
    from queryable_state.wire.located_state import LocatedState

_NOT_THERE = (UnknownJobError, UnknownStateError, AmbiguousJobError)

# The coordinator does not answer, whatever it is asked; the texts name nothing.
_AWAY = (DriverAwayError, QueryTimeoutError)

# Jobs of located states that are remembered while the driver does not know them.
_MOST_JOBS = 1024

_RETRY_MS = 200


class VisibleStates:
    """Locates and lists the states that a caller may see.

    Errors of the router may name any job, with what its driver says of it. A caller gets them for
    jobs and states that its grants cover; everything else is refused alike, whether it exists, is
    being restored, has failed, or was never there.
    """

    def __init__(self, router: Router, access: AccessControl) -> None:
        self._router = router
        self._access = access
        self._located: dict[bytes, str] = {}
        """Names of the jobs whose states were located, by id, the newest last."""

    async def locate(self, caller: Caller, request: query_pb2.LocateStateRequest) -> LocatedState:
        """Locates a state; without a job, that of the only job of the caller's that has it."""
        job, state = request.job, request.state_name
        refusal: QueryableStateError | None = None
        try:
            located = await self._router.locate(request)
        except QueryableStateError as problem:
            refusal = problem
        else:
            if self._access.rights(caller, located.registration).kinds:
                self._remember(located.registration)
                return located
        if refusal is not None:
            if caller.grants.lists_unknown("", "*"):
                raise refusal
            if job and caller.grants.lists_unknown(job, state):
                raise await self._of_its_job(caller, job, state, refusal)
        # From here on a state that does not exist is as one that the caller may not see. Therefore
        # the driver must answer for both: what caches have is located without it.
        listed = (await self._router.list_jobs(query_pb2.ListJobsRequest())).jobs
        jobs = self._matching(caller, {each.job_id: each.name for each in listed}, job, state)
        # A driver that has started again does not know its jobs at once.
        if not jobs and not self._matching(caller, self._located, job, state):
            raise self.hidden(caller, job, state)
        if job:
            if refusal is None:
                raise self.hidden(caller, job, state)
            raise await self._of_its_job(caller, job, state, refusal)
        if isinstance(refusal, RetryLaterError | QueryTimeoutError):
            raise RetryLaterError(
                f"state {shown(state)!r} may be of a job that is not ready: ask again",
                retry_after_ms=refusal.retry_after_ms or _RETRY_MS,
            )
        if len(jobs) > 1:
            running = {each.job_id for each in listed if each.status == registration_pb2.RUNNING}
            jobs = await self._only_with(caller, state, running)
        return await self.locate(
            caller,
            query_pb2.LocateStateRequest(
                job=jobs[0].hex(), state_name=state, newer_than=request.newer_than
            ),
        )

    async def states(
        self, caller: Caller, request: query_pb2.ListStatesRequest
    ) -> list[registration_pb2.StateRegistration]:
        """Lists the states of a job, or of all, that a caller may see."""
        job = request.job
        try:
            listed = (await self._router.list_states(request)).states
        except _AWAY:
            raise
        except QueryableStateError as refusal:
            if not caller.grants.lists_unknown(job, ""):
                raise self.hidden(caller, job, "") from None
            raise await self._of_its_job(caller, job, "", refusal) from None
        visible = [state for state in listed if self._access.rights(caller, state).kinds]
        if job and not visible and not caller.grants.lists_unknown(job, ""):
            raise self.hidden(caller, job, "")
        return visible

    async def registered(self, caller: Caller, state_id: int) -> registration_pb2.StateRegistration:
        """The registration of a state, which the caller may not see yet."""
        try:
            return await self._router.registered(state_id)
        except _AWAY:
            raise
        except QueryableStateError:
            if caller.grants.lists_unknown("", "*"):
                raise
            raise self._access.denials.unnamed(caller.name) from None

    def hidden(self, caller: Caller, job: str, state: str) -> QueryableStateError:
        """The denial for a state that the caller may not see, whether or not it exists."""
        return self._access.denials.denied(caller.name, Kind.LIST, job, state)

    def _remember(self, registration: registration_pb2.StateRegistration) -> None:
        self._located.pop(registration.job_id, None)
        self._located[registration.job_id] = registration.job_name
        if len(self._located) > _MOST_JOBS:
            del self._located[next(iter(self._located))]

    def _matching(
        self, caller: Caller, jobs: Mapping[bytes, str], text: str, state: str
    ) -> list[bytes]:
        """Jobs that match the request's name or id, and whose states the caller may list."""
        lists = caller.grants.lists_unknown
        return [
            job_id
            for job_id, name in jobs.items()
            if text in ("", name) or job_id == job_id_of(text)
            if lists(name, state) or lists(job_id.hex(), state)
        ]

    async def _only_with(self, caller: Caller, state: str, running: set[bytes]) -> list[bytes]:
        """The visible job with this state, for a request without a job; raises unless one."""
        visible = await self.states(caller, query_pb2.ListStatesRequest())
        names = {each.job_id: each.job_name for each in visible if each.queryable_name == state}
        # Ended jobs stay readable by id, as the coordinator has it.
        jobs = [job_id for job_id in names if job_id in running] or list(names)
        if not jobs:
            raise _unknown(state, "any job", visible)
        if len(jobs) > 1:
            labels = [job_label(names[job_id], job_id) for job_id in jobs]
            raise AmbiguousJobError(
                f"{len(labels)} jobs have a state {shown(state)!r}: name one of "
                f"{', '.join(labels)}",
                candidates=labels,
            )
        return jobs

    async def _of_its_job(
        self, caller: Caller, job: str, state: str, refusal: QueryableStateError
    ) -> QueryableStateError:
        """The refusal of a job that the caller may see, without names that it may not see."""
        if not isinstance(refusal, _NOT_THERE):
            return refusal
        visible = [
            each
            for each in await self.states(caller, query_pb2.ListStatesRequest())
            if job == each.job_name or job_id_of(job) == each.job_id
        ]
        unknown = _unknown(state, f"job {shown(job)!r}", visible)
        return type(refusal)(unknown.message, reason=refusal.reason, candidates=unknown.candidates)


def _unknown(
    state: str, where: str, visible: list[registration_pb2.StateRegistration]
) -> UnknownStateError:
    names = sorted({each.queryable_name for each in visible})
    what = f"state {shown(state)!r}" if state else "states"
    known = f"; it has {', '.join(names)}" if names else ""
    return UnknownStateError(f"no {what} of {where}{known}", candidates=names)
