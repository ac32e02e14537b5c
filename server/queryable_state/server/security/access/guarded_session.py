"""Queries of one frame connection, as far as the grants and limits of its caller allow."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.router import QuerySession
from queryable_state.server.security.access.grants import Kind
from queryable_state.wire.errors import AuthenticationError, QueryableStateError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.query.router import Deliver, Router
    from queryable_state.server.security.access.access_control import AccessControl
    from queryable_state.server.security.access.caller import Caller, StateRights
    from queryable_state.server.serving.large_request_queue import LargeRequestQueue
    from queryable_state.v1 import query_pb2


class GuardedSession(QuerySession):
    """The queries of one connection and its caller.

    The caller is authenticated again after a change of the access rules: before a query is asked,
    before its answer is delivered, and while there is neither. Queries that it may not ask any
    more are refused; without a valid token the connection ends.
    """

    def __init__(
        self,
        router: Router,
        access: AccessControl,
        rights: Callable[[Caller, int], Awaitable[StateRights]],
        deliver: Deliver,
        turns: LargeRequestQueue,
        *,
        caller: Caller,
        authorization: str,
    ) -> None:
        """`turns` orders large answers; `rights` looks up those of a caller on a state, by its id,
        and raises the refusal if the caller may not see the state."""
        self._rights = rights
        self._access = access
        self._deliver = deliver
        self._turns = turns
        self._caller = caller
        self._authorization = authorization
        self._session: QuerySession | None = router.session(self._delivered)
        """None once it is closed."""
        self._unanswered: dict[int, StateRights] = {}
        """Rights of unanswered queries, by their id."""
        self._refused: dict[int, QueryableStateError] = {}
        """What those among them get instead of their answer that were refused while they waited."""
        self._pending: set[asyncio.Task[None]] = set()
        access.sessions.add(self)

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        """Raises `AuthenticationError` once the caller's token is not valid any more."""
        caller = self._caller
        if not self._access.is_valid(caller):
            caller = self._renewed_caller()
        rights = self._access.rights_now(caller, query.state_id)
        if rights is not None:
            return self._ask(caller, rights, query, frame)
        task = asyncio.get_running_loop().create_task(self._ask_later(caller, query, frame))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return None

    def check(self) -> None:
        """Ends the connection if the caller's token is not valid any more."""
        if self._access.is_valid(self._caller):
            return
        try:
            self._renewed_caller()
        except RetryLaterError:
            # The keys of its issuer are fetched now; the next check has them or refuses.
            return
        except AuthenticationError as refusal:
            self._end(refusal)

    async def aclose(self) -> None:
        self._access.sessions.discard(self)
        pending = tuple(self._pending)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        # The sessions and the connection reference each other. The cycle is broken here, because
        # the garbage collector hardly ever runs.
        session, self._session = self._session, None
        self._deliver = _to_nobody
        self._unanswered.clear()
        self._refused.clear()
        if session is not None:
            await session.aclose()

    def _ask(
        self, caller: Caller, rights: StateRights, query: query_pb2.Query, frame: bytes
    ) -> bytes | None:
        quota, session = rights.quota, self._session
        if session is None:
            return None
        try:
            if not rights.may_read:
                raise self._access.denials.of_rights(caller, Kind.READ, rights)
            if quota is not None:
                quota.admit(len(query.keys))
        except QueryableStateError as refusal:
            return frame_of(refusal_of(query.id, refusal))
        # Before the call, which may deliver the answer.
        self._unanswered[query.id] = rights
        answer = session.ask(query, frame)
        if answer is not None:
            del self._unanswered[query.id]
            if self._refused:
                self._refused.pop(query.id, None)
            if quota is not None:
                quota.answered(len(answer))
        return answer

    async def _ask_later(self, caller: Caller, query: query_pb2.Query, frame: bytes) -> None:
        try:
            rights = await self._rights(caller, query.state_id)
            # Queries of many connections may have waited for the same rights; each may be large.
            await self._turns.next()
            while not self._access.is_valid(caller):
                caller = self._renewed_caller()
                rights = await self._rights(caller, query.state_id)
            answer = self._ask(caller, rights, query, frame)
        except QueryableStateError as refusal:
            answer = frame_of(refusal_of(query.id, refusal))
        if answer is not None:
            self._deliver(query.id, answer, True)

    def _delivered(self, query_id: int, frame: bytes, last: bool) -> None:
        if not self._access.is_valid(self._caller):
            try:
                self._renewed_caller()
            except AuthenticationError as refusal:
                self._deliver(query_id, frame_of(refusal_of(query_id, refusal)), True)
                self._end(refusal)
                return
            except RetryLaterError as refusal:
                self._refused[query_id] = refusal
        waiting = self._unanswered
        rights = waiting.pop(query_id, None) if last else waiting.get(query_id)
        if self._refused and query_id in self._refused:
            # Until the last part, because the id is in use until then.
            if last:
                refused = frame_of(refusal_of(query_id, self._refused.pop(query_id)))
                self._deliver(query_id, refused, True)
            return
        if rights is not None and rights.quota is not None:
            rights.quota.answered(len(frame))
        self._deliver(query_id, frame, last)

    def _renewed_caller(self) -> Caller:
        """Authenticates the caller again, and refuses waiting queries that it may not ask any more.

        Raises `AuthenticationError`, or `RetryLaterError` while the keys of its issuer are fetched.
        """
        caller = self._caller = self._access.authenticate_now(self._authorization)
        for query_id, rights in self._unanswered.items():
            kinds = caller.grants.kinds(rights.name)
            if Kind.READ not in kinds:
                self._refused[query_id] = self._access.denials.of_rights(
                    caller, Kind.READ, replace(rights, kinds=kinds)
                )
        return caller

    def _end(self, refusal: AuthenticationError) -> None:
        self._access.sessions.discard(self)
        if self.on_refused is not None:
            self.on_refused(refusal)


def _to_nobody(_query_id: int, _frame: bytes, _last: bool) -> None:
    """Drops the answers to a closed connection."""
