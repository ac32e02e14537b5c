"""Cache of state locations: registrations and owners, as the coordinator last sent them."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from queryable_state.server.coordinator_client import (
    CoordinatorSlowError,
    CoordinatorUnreachableError,
)
from queryable_state.server.job_names import NamedJob, resolved_job
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.query.proxy.known_status import KnownStatus
from queryable_state.server.query.router import DriverAwayError
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.calls.single_flight import SingleFlight
from queryable_state.wire.errors import (
    QueryTimeoutError,
    RetryLaterError,
    UnknownJobError,
    UnknownStateError,
)
from queryable_state.wire.located_state import LocatedState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.v1 import status_pb2


_T = TypeVar("_T")

# Calls that may follow each other at once, and time from one to the next after so many.
_BURST = 10
_INTERVAL_S = 0.1


class SharedCall(Generic[_T]):
    """One question to the coordinator, asked 10 times a second at most.

    Callers share calls, but each gets the answer, or the failure, of a call that began after it
    asked: an answer is never older than its question. A burst has no delay. `aclose` cancels what
    runs; callers do not modify answers.
    """

    def __init__(self, call: Callable[[], Awaitable[_T]]) -> None:
        self._call = call
        self._due_s = float("-inf")
        self._begun = 0
        self._calls: SingleFlight[int, _T] = SingleFlight()

    async def answer(self) -> _T:
        """The answer of the next call to begin."""
        return await self._calls.run(self._begun, self._next)

    async def aclose(self) -> None:
        """Cancels the running calls; idempotent."""
        await self._calls.aclose()

    async def _next(self) -> _T:
        now_s = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._due_s - (_BURST - 1) * _INTERVAL_S - now_s))
        self._due_s = max(self._due_s, now_s) + _INTERVAL_S
        # Who asks from now on needs a later call.
        self._begun += 1
        return await self._call()


# Lifetime of a resolved name: a job's name may move to another job, and a name that was unique
# may become ambiguous.
_NAME_TTL_S = 1.0

# Names kept, as clients write them; the oldest are located again.
_MOST_NAMES = 8192

_failures = RateLimitedLog(logging.getLogger(__name__))


@dataclass
class _ResolvedName:
    located: LocatedState
    resolved_at_s: float
    newer: SharedCall[LocatedState]
    """Locates it again for clients that ask for a newer placement, whichever version they name."""


class PlacementSource(Protocol):
    """The calls to the coordinator that resolve jobs, states and owners."""

    @property
    def address(self) -> str:
        """HOST:PORT of the coordinator; empty: none was reached."""
        ...

    async def locate_state(
        self, request: query_pb2.LocateStateRequest
    ) -> query_pb2.LocateStateResponse:
        """A state's registration and owners."""
        ...

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """The jobs."""
        ...

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """The queryable states."""
        ...

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """What is known of a job."""
        ...

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """The state servers."""
        ...


class LocationTable:
    """A cache of the coordinator's placement, valid by placement version.

    An entry is valid until a caller asks for a newer placement, because an owner has refused a
    query or does not answer. Equal concurrent requests share one call, and lists of all clients
    at most 10 a second. The caller closes the coordinator client.
    """

    def __init__(self, coordinator: PlacementSource) -> None:
        self._coordinator = coordinator
        self._names: dict[tuple[str, str], _ResolvedName] = {}
        self._by_id: dict[int, LocatedState] = {}
        self._calls: SingleFlight[object, LocatedState] = SingleFlight()
        self._jobs = SharedCall(
            lambda: _for_clients(coordinator.list_jobs(query_pb2.ListJobsRequest()))
        )
        self._states = SharedCall(
            lambda: _for_clients(coordinator.list_states(query_pb2.ListStatesRequest()))
        )
        self._status = KnownStatus(
            list_jobs=self._jobs.answer,
            describe_job=lambda request: _for_clients(coordinator.describe_job(request)),
            list_servers=lambda request: _for_clients(coordinator.list_servers(request)),
            driver_address=lambda: coordinator.address,
        )

    def cached(self, state_id: int) -> LocatedState | None:
        """The newest cached placement, without a call; None if there is none."""
        return self._by_id.get(state_id)

    def registration(self, state_id: int) -> registration_pb2.StateRegistration | None:
        """The registration of a cached state, without a call; None if it is not cached."""
        located = self._by_id.get(state_id)
        return None if located is None else located.registration

    def known(self, request: query_pb2.LocateStateRequest) -> LocatedState | None:
        """The result of `locate` if the cache has it; None if `locate` must call."""
        named = self._names.get((request.job, request.state_name))
        if named is None or time.monotonic() - named.resolved_at_s >= _NAME_TTL_S:
            return None
        known = self._by_id.get(named.located.state_id)
        if known is None:
            return None
        newer = not request.newer_than or known.placement_version > request.newer_than
        return known if newer else None

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        """Locates a state by job and queryable name, from the cache if that is new enough.

        Returns an expired entry if the coordinator does not answer, unless the request needs a
        newer placement.
        """
        known = self.known(request)
        if known is not None:
            return known
        name = (request.job, request.state_name)
        named = self._names.get(name)
        try:
            if named is not None and request.newer_than:
                return await named.newer.answer()
            return await self._calls.run(name, lambda: self._refresh(*name))
        except (RetryLaterError, QueryTimeoutError):
            named = self._names.get(name)
            if named is None or request.newer_than:
                raise
            return self._by_id.get(named.located.state_id, named.located)

    async def locate_id(self, state_id: int, *, newer_than: int = 0) -> LocatedState:
        """Locates a state by id; raises `UnknownStateError` if the coordinator does not know it."""
        known = self._by_id.get(state_id)
        if known is not None and (not newer_than or known.placement_version > newer_than):
            return known
        return await self._calls.run((state_id, newer_than), lambda: self._refresh_id(state_id))

    async def registered(self, state_id: int) -> registration_pb2.StateRegistration:
        """The registration of a state, from the cache if it is there."""
        known = self._by_id.get(state_id)
        return await self._listed(state_id) if known is None else known.registration

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        """The jobs that the coordinator knows now, or knew last; not to be modified."""
        return await self._status.list_jobs(request)

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """The queryable states that the coordinator knows now; not to be modified.

        Raises `UnknownJobError`. The coordinator lists all, so that calls of clients that name
        different jobs are one.
        """
        if not request.job:
            return await self._states.answer()
        jobs = (await self._jobs.answer()).jobs
        job_id = resolved_job(
            request.job,
            (
                NamedJob(job.job_id, job.name, job.status == registration_pb2.RUNNING)
                for job in jobs
            ),
        )
        states = (await self._states.answer()).states
        return query_pb2.ListStatesResponse(
            states=[state for state in states if state.job_id == job_id]
        )

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """Same contract as `KnownStatus.describe_job`."""
        return await self._status.describe_job(request)

    async def refresh(self, jobs: query_pb2.ListJobsResponse) -> None:
        """Same contract as `KnownStatus.refresh`."""
        await self._status.refresh(jobs)

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """Same contract as `KnownStatus.list_servers`."""
        return await self._status.list_servers(request)

    async def aclose(self) -> None:
        """Cancels pending calls; idempotent."""
        await self._status.aclose()
        await self._calls.aclose()
        await self._jobs.aclose()
        await self._states.aclose()
        for named in self._names.values():
            await named.newer.aclose()

    async def _refresh(self, job: str, state_name: str) -> LocatedState:
        located = await self._request(job, state_name)
        known = self._by_id.get(located.state_id)
        if known is not None and known.placement_version > located.placement_version:
            located = known
        self._by_id[located.state_id] = located
        named = self._names.pop((job, state_name), None)
        self._names[job, state_name] = _ResolvedName(
            located,
            time.monotonic(),
            SharedCall(lambda: self._refresh(job, state_name)) if named is None else named.newer,
        )
        if len(self._names) > _MOST_NAMES:
            del self._names[next(iter(self._names))]
        return located

    async def _request(self, job: str, state_name: str) -> LocatedState:
        """Calls the coordinator, which sends the owners only if they have changed."""
        named = self._names.get((job, state_name))
        known = None if named is None else self._by_id.get(named.located.state_id)
        request_if_changed = query_pb2.LocateStateRequest(job=job, state_name=state_name)
        if known is not None:
            request_if_changed.known_state_id = known.state_id
            request_if_changed.known_version = known.placement_version
        response = await _for_clients(self._coordinator.locate_state(request_if_changed))
        if known is None or not response.unchanged:
            return LocatedState.of(response.location)
        location = response.location
        if location.registration == known.registration:
            return known
        location.owners.extend(known.location.owners)
        return LocatedState.of(location)

    async def _refresh_id(self, state_id: int) -> LocatedState:
        registration = await self.registered(state_id)
        try:
            located = await self._refresh(registration.job_id.hex(), registration.queryable_name)
        except (UnknownJobError, UnknownStateError):
            # The caller has named a state, not the job whose id is asked for here.
            located = None
        if located is None or located.state_id != state_id:
            # Or a query that Spark has repartitioned: its keys are encoded for other key groups.
            self._by_id.pop(state_id, None)
            raise _unknown_id(state_id)
        return located

    async def _listed(self, state_id: int) -> registration_pb2.StateRegistration:
        for state in (await self._states.answer()).states:
            if state.state_id == state_id:
                return state
        raise _unknown_id(state_id)


def _unknown_id(state_id: int) -> UnknownStateError:
    return UnknownStateError(
        f"no queryable state has the id {state_id} any more: locate it by its name"
    )


async def _for_clients(call: Awaitable[_T]) -> _T:
    """Awaits a call; hides the coordinator's address, which is only for the log, from clients."""
    try:
        return await call
    except CoordinatorUnreachableError as failure:
        _failures.write(logging.WARNING, "unreachable", "%s", failure)
        raise DriverAwayError(
            "the job's driver does not answer: it is starting again, or cannot be reached from "
            "here; the log of this server names its address",
            retry_after_ms=failure.retry_after_ms,
        ) from None
    except CoordinatorSlowError as failure:
        _failures.write(logging.WARNING, "slow", "%s", failure)
        raise QueryTimeoutError("the job's driver did not answer in time: ask again") from None
