"""Router that answers only what the grants and limits of the caller allow."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from queryable_state.server.query.router import Router
from queryable_state.server.security.access.caller import caller_of_call
from queryable_state.server.security.access.grants import Kind, StateName
from queryable_state.server.security.access.guarded_session import GuardedSession
from queryable_state.server.security.guarded_watch import GuardedWatch
from queryable_state.server.security.visible_jobs import VisibleJobs
from queryable_state.server.security.visible_states import VisibleStates
from queryable_state.server.serving.large_request_queue import LargeRequestQueue
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from queryable_state.server.query.router import Deliver, QuerySession
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.server.security.access.caller import Caller, StateRights
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.server.security.admission.admission import Quota
    from queryable_state.v1 import hot_keys_pb2, registration_pb2, status_pb2, watch_pb2
    from queryable_state.wire.located_state import LocatedState

# Part of a page's time that the limit of bytes may delay its messages.
_LONGEST_PAUSE = 0.5

_SCAN = ("scan", "continue with its page token")
_WATCH = ("watch", "continue behind its last batch")


class GuardedRouter(Router):
    """Checks the caller before it asks another router, which the caller of this class closes.

    A state that the caller may not see is refused as one that does not exist. Lists, and what is
    denied or not found, count as queries in the limits of the caller that name no states.
    """

    def __init__(self, router: Router, gate: Gate) -> None:
        self._router = router
        self._gate = gate
        self._access = gate.access
        self._turns = LargeRequestQueue()
        self._visible = VisibleStates(router, self._access)
        self._jobs = VisibleJobs(router, self._visible)

    def session(self, deliver: Deliver, authorization: str = "") -> QuerySession:
        """Raises `AuthenticationError` for a connection without a valid token."""
        caller = self._gate.caller_of_hello(authorization)
        if caller.is_internal:
            return self._router.session(deliver)
        return GuardedSession(
            self._router,
            self._access,
            self.rights,
            deliver,
            self._turns,
            caller=caller,
            authorization=authorization,
        )

    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        caller = caller_of_call.get()
        if caller.is_internal:
            return await self._router.answers(query)
        rights = await self.rights(caller, query.state_id)
        if not rights.may_read:
            raise self._access.denials.of_rights(caller, Kind.READ, rights)
        if rights.quota is not None:
            rights.quota.admit(len(query.keys))
        answers = await self._router.answers(query)
        # It may have waited for a commit.
        self._check_still_valid(caller, "query", "ask again")
        if rights.quota is not None:
            rights.quota.answered(sum(answer.ByteSize() for answer in answers))
        return answers

    async def scan(
        self, query: ScanQuery, located: LocatedState
    ) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        caller = caller_of_call.get()
        rights = self._access.rights(caller, located.registration)
        if not caller.is_internal and Kind.SCAN not in rights.kinds:
            raise self._access.denials.of_rights(caller, Kind.SCAN, rights)
        async with aclosing(self._router.scan(query, located)) as messages:
            if caller.is_internal:
                async for message in messages:
                    yield message
            elif rights.quota is None:
                async for message in messages:
                    self._check_still_valid(caller, *_SCAN)
                    yield message
            else:
                with rights.quota.scan():
                    async for message in messages:
                        self._check_still_valid(caller, *_SCAN)
                        await _wait_for_bytes(rights.quota, query.page_timeout_ms)
                        rights.quota.answered(message.ByteSize())
                        yield message

    async def watch(
        self, query: WatchQuery, located: LocatedState
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        caller = caller_of_call.get()
        if caller.is_internal:
            async with aclosing(self._router.watch(query, located)) as messages:
                async for message in messages:
                    yield message
            return
        rights = self._access.rights(caller, located.registration)
        # Keys are read; a prefix, or the whole state, is scanned.
        kind = Kind.READ if query.keys else Kind.SCAN
        if kind not in rights.kinds:
            raise self._access.denials.of_rights(caller, kind, rights)
        if rights.quota is not None:
            rights.quota.admit(len(query.keys))
        guard = GuardedWatch(self._access, lambda: self._check_still_valid(caller, *_WATCH))
        async with aclosing(guard.messages(self._router.watch(query, located))) as messages:
            async for message in messages:
                if rights.quota is not None:
                    # The server does not wait for a watch that is slowed down: it may get a gap.
                    await asyncio.sleep(rights.quota.pause_s())
                    rights.quota.answered(message.ByteSize())
                yield message

    async def measure(
        self, located: LocatedState, timeout_ms: int, *, placement_version: int = 0
    ) -> query_pb2.MeasureStateResponse:
        caller = caller_of_call.get()
        rights = self._access.rights(caller, located.registration)
        if not rights.kinds & (Kind.SCAN | Kind.ADMIN):
            raise self._access.denials.of_rights(caller, Kind.SCAN, rights)
        if rights.quota is not None:
            rights.quota.admit(0)
        return await self._router.measure(located, timeout_ms, placement_version=placement_version)

    async def hot_keys(
        self,
        states: Sequence[LocatedState],
        limit: int,
        timeout_ms: int,
        *,
        placement_version: int = 0,
    ) -> hot_keys_pb2.ListHotKeysResponse:
        """Leaves out states that the caller may not scan; raises if that are all."""
        caller = caller_of_call.get()
        of_state = [(each, self._access.rights(caller, each.registration)) for each in states]
        allowed = [
            (each, rights)
            for each, rights in of_state
            if caller.is_internal or Kind.SCAN in rights.kinds
        ]
        if not allowed and of_state:
            raise self._access.denials.of_rights(caller, Kind.SCAN, of_state[0][1])
        for _, rights in allowed:
            if rights.quota is not None:
                rights.quota.admit(0)
        return await self._router.hot_keys(
            [each for each, _ in allowed],
            limit,
            timeout_ms,
            placement_version=placement_version,
        )

    async def locate(self, request: query_pb2.LocateStateRequest) -> LocatedState:
        caller = caller_of_call.get()
        if caller.is_internal:
            return await self._router.locate(request)
        quota = self._admitted(caller)
        located = await self._visible.locate(caller, request)
        if quota is not None:
            quota.refund()
        return located

    async def registered(self, state_id: int) -> registration_pb2.StateRegistration:
        return await self._router.registered(state_id)

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        caller = caller_of_call.get()
        if caller.is_internal:
            return await self._router.list_jobs(request)
        self._admitted(caller)
        return await self._jobs.list(caller, request)

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        caller = caller_of_call.get()
        if caller.is_internal:
            return await self._router.list_states(request)
        self._admitted(caller)
        return query_pb2.ListStatesResponse(states=await self._visible.states(caller, request))

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        caller = caller_of_call.get()
        if caller.is_internal:
            return await self._router.describe_job(request)
        self._admitted(caller)
        return await self._jobs.describe(caller, request)

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        caller = caller_of_call.get()
        if caller.is_internal:
            return await self._router.list_servers(request)
        self._admitted(caller)
        return await self._jobs.servers(caller, request)

    async def aclose(self) -> None:
        """Does nothing: the other router is its creator's."""

    async def rights(self, caller: Caller, state_id: int) -> StateRights:
        """The caller's rights on a state; refuses one that it may not see."""
        known = self._access.rights_now(caller, state_id)
        if known is None:
            quota = self._admitted(caller)
            registration = await self._visible.registered(caller, state_id)
            known = self._access.rights(caller, registration)
            if quota is not None and known.kinds:
                quota.refund()
        if not known.kinds:
            raise self._access.denials.unnamed(caller.name)
        return known

    def _admitted(self, caller: Caller) -> Quota | None:
        """Counts a question that is about no state yet; None: no limit applies."""
        quota = self._access.admission.quota(caller.name, StateName("", "", ""))
        if quota is not None and not caller.is_internal:
            quota.admit(0)
            return quota
        return None

    def _check_still_valid(self, caller: Caller, what: str, how_on: str) -> None:
        """Ends a call whose caller's token has expired, or whose rules have changed."""
        if self._access.is_valid(caller):
            return
        if caller.generation == self._access.generation:
            raise self._access.denials.unauthenticated(
                "expired JWT", f"the JWT of the {what} has expired: request a new one"
            )
        raise RetryLaterError(
            f"the access rules have changed during the {what}: {how_on}", retry_after_ms=1
        )


async def _wait_for_bytes(quota: Quota, page_timeout_ms: int) -> None:
    """Waits until the limit of bytes admits the next message of a scan; raises if that is long."""
    pause_s = quota.pause_s()
    if not pause_s:
        return
    if pause_s > page_timeout_ms / 1000 * _LONGEST_PAUSE:
        raise RetryLaterError(
            "the limit `bytes_per_s` of the access file is reached: continue with the page token",
            reason=Reason.OVERLOADED,
            retry_after_ms=max(1, int(pause_s * 1000)),
        )
    await asyncio.sleep(pause_s)
