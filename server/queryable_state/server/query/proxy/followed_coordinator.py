"""The coordinator of an application, wherever its driver listens now."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from queryable_state.server.coordinator_client import (
    CoordinatorClient,
    CoordinatorSlowError,
    CoordinatorUnreachableError,
)
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.listeners import nothing_listens
from queryable_state.wire.errors import (
    AuthenticationError,
    QueryableStateError,
    RetryLaterError,
    UnknownJobError,
    UnknownStateError,
)
from queryable_state.wire.security.connector import CLEAR_TEXT
from queryable_state.wire.security.signed_calls import CallSigner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.internal.v1 import coordinator_pb2
    from queryable_state.server.query.proxy.coordinator_endpoints import (
        CoordinatorEndpoint,
        CoordinatorEndpoints,
    )
    from queryable_state.v1 import status_pb2
    from queryable_state.wire.security.connector import Connector

_log = logging.getLogger(__name__)
_failures = RateLimitedLog(_log)

# Time for one address to answer, and least time between two rounds over all addresses.
_TRY_S = 1.0
_ROUND_S = 0.3

# Time for a coordinator that listens to answer the first call, and between two attempts.
_CONNECT_S = 5.0
_PAUSE_S = 0.1

_RETRY_AFTER_MS = 200

_MOST_LOCATED = 8192

# Longest time from the start of a coordinator to that of its jobs.
_STARTING_S = 120.0

_T = TypeVar("_T")


class _Located(NamedTuple):
    """A state that a coordinator has located."""

    job_id: bytes
    job_name: str
    found_s: float
    """When that coordinator was found, on the clock of the loop."""


class FollowedCoordinator:
    """Client of the coordinator that moves with it: to another address, and to another secret.

    A call that does not reach the coordinator, or whose signature it refuses, looks for the
    coordinator once more and is then repeated. Used on one event loop; `connect` before the first
    call, `aclose` at the end.
    """

    def __init__(self, endpoints: CoordinatorEndpoints, connector: Connector = CLEAR_TEXT) -> None:
        self._endpoints = endpoints
        self._connector = connector
        self._client: CoordinatorClient | None = None
        self._current: CoordinatorEndpoint | None = None
        self.signer = CallSigner(secrets.token_urlsafe(32))
        """Signer of the calls to owners, with the secret of the coordinator once it is found."""
        self._looking = asyncio.Lock()
        self._tried: list[str] = []
        self._looked_s = self._found_s = float("-inf")
        self._located: dict[tuple[str, str], _Located] = {}
        """By job, as clients name it, and state, as a coordinator has located it; newest last."""

    @property
    def address(self) -> str:
        """HOST:PORT of the coordinator; empty if none was reached."""
        return "" if self._current is None else self._current.address

    async def connect(self) -> None:
        """Finds the coordinator; raises why the last of its addresses does not answer.

        Raises at once if nothing listens at any address; a process that listens may be busy.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _CONNECT_S
        async with self._looking:
            while True:
                try:
                    await self._look()
                except CoordinatorUnreachableError:
                    if loop.time() > deadline_s or await nothing_listens(self._tried):
                        raise
                    await asyncio.sleep(_PAUSE_S)
                else:
                    return

    async def list_jobs(
        self, request: query_pb2.ListJobsRequest, *, timeout_s: float | None = None
    ) -> query_pb2.ListJobsResponse:
        """Same contract as `CoordinatorClient.list_jobs`."""
        return await self._call(lambda client: client.list_jobs(request, timeout_s=timeout_s))

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        """Same contract as `CoordinatorClient.list_states`."""
        return await self._call(lambda client: client.list_states(request))

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        """Same contract as `CoordinatorClient.describe_job`."""
        return await self._call(lambda client: client.describe_job(request))

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        """Same contract as `CoordinatorClient.list_servers`."""
        return await self._call(lambda client: client.list_servers(request))

    async def report_load(
        self, request: coordinator_pb2.ReportLoadRequest
    ) -> coordinator_pb2.ReportLoadResponse:
        """Same contract as `CoordinatorClient.report_load`."""
        return await self._call(lambda client: client.report_load(request))

    async def locate_state(
        self, request: query_pb2.LocateStateRequest
    ) -> query_pb2.LocateStateResponse:
        """Same contract as `CoordinatorClient.locate_state`.

        A driver that starts again knows its jobs later than it answers: for a state that the
        driver before it has located it raises `RetryLaterError` meanwhile.
        """
        try:
            response = await self._call(lambda client: client.locate_state(request))
        except (UnknownJobError, UnknownStateError):
            if not await self._may_come_back(request):
                raise
            # Without the names that the driver knows: not every caller may see them.
            raise RetryLaterError(
                "the job's driver has started again and is not ready",
                retry_after_ms=_RETRY_AFTER_MS,
            ) from None
        registration = response.location.registration
        located = _Located(registration.job_id, registration.job_name, self._found_s)
        for job in (request.job, registration.job_id.hex()):
            self._located.pop((job, request.state_name), None)
            self._located[job, request.state_name] = located
        while len(self._located) > _MOST_LOCATED:
            del self._located[next(iter(self._located))]
        return response

    async def _may_come_back(self, request: query_pb2.LocateStateRequest) -> bool:
        """Whether a state that the driver does not know is that of a job it has yet to start.

        Not if this driver itself has known it, or has another job of the same name.
        """
        located = self._located.get((request.job, request.state_name))
        since_s = asyncio.get_running_loop().time() - self._found_s
        if located is None or located.found_s == self._found_s or since_s > _STARTING_S:
            return False
        listed = await self._call(lambda client: client.list_jobs(query_pb2.ListJobsRequest()))
        return not any(
            job.name == located.job_name and job.job_id != located.job_id
            for job in listed.jobs
            if job.name
        )

    async def trigger_savepoint(
        self, request: coordinator_pb2.TriggerSavepointRequest, *, timeout_s: float
    ) -> coordinator_pb2.TriggerSavepointResponse:
        """Same contract as `CoordinatorClient.trigger_savepoint`; not repeated."""
        if self._client is None:
            raise CoordinatorUnreachableError("the client of the coordinator is closed")
        return await self._client.trigger_savepoint(request, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Closes the connection; idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _call(self, call: Callable[[CoordinatorClient], Awaitable[_T]]) -> _T:
        client = self._client
        failure: QueryableStateError | None = None
        if client is not None:
            try:
                return await call(client)
            except (
                CoordinatorUnreachableError,
                CoordinatorSlowError,
                AuthenticationError,
            ) as problem:
                failure = problem
        found = await self._another_than(client)
        if found is not None:
            return await call(found)
        if isinstance(failure, CoordinatorUnreachableError | CoordinatorSlowError):
            raise failure
        # Clients cannot mend the secret of this process.
        raise CoordinatorUnreachableError(
            f"the coordinator at {self.address} refuses this proxy: {failure}"
            if failure
            else "no coordinator was found yet",
            retry_after_ms=_RETRY_AFTER_MS,
        )

    async def _another_than(self, client: CoordinatorClient | None) -> CoordinatorClient | None:
        """The coordinator found after `client` failed; None if there is none now."""
        loop = asyncio.get_running_loop()
        async with self._looking:
            if self._client is not client:
                return self._client
            if loop.time() - self._looked_s < _ROUND_S:
                return None
            try:
                await self._look()
            except QueryableStateError as failure:
                _failures.write(logging.WARNING, "not found", "no driver is found: %s", failure)
                return None
            finally:
                self._looked_s = loop.time()
            return self._client

    async def _look(self) -> None:
        """Takes the first address that answers; raises the failure of the last one."""
        failure: QueryableStateError | None = None
        endpoints = await self._endpoints.read()
        self._tried = [endpoint.address for endpoint in endpoints]
        for endpoint in endpoints:
            candidate = CoordinatorClient(
                endpoint.address, endpoint.secret, connector=self._connector
            )
            try:
                await candidate.list_jobs(query_pb2.ListJobsRequest(), timeout_s=_TRY_S)
            except BaseException as problem:
                await candidate.aclose()
                if not isinstance(problem, QueryableStateError):
                    raise
                failure = problem
            else:
                await self._take(endpoint, candidate)
                return
        assert failure is not None
        raise failure

    async def _take(self, endpoint: CoordinatorEndpoint, client: CoordinatorClient) -> None:
        before, self._client = self._client, client
        self._current = endpoint
        self.signer.use(endpoint.secret)
        self._found_s = asyncio.get_running_loop().time()
        if before is not None:
            _log.info("the coordinator answers at %s", endpoint.address)
            await before.aclose()
