"""Queries of one frame connection, as far as the grants and limits of its caller allow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.query.frames.answer_frames import frame_of, refusal_of
from queryable_state.server.query.router import QuerySession
from queryable_state.server.security.access.grants import Kind
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.query.router import Deliver, Router
    from queryable_state.server.security.access.access_control import AccessControl
    from queryable_state.server.security.access.caller import Caller, StateRights
    from queryable_state.server.security.admission.admission import Quota
    from queryable_state.server.serving.large_request_queue import LargeRequestQueue
    from queryable_state.v1 import query_pb2


class GuardedSession(QuerySession):
    """The queries of one connection and its caller."""

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
        self._quotas: dict[int, Quota] = {}
        """Quotas of unanswered queries, by their id."""
        self._pending: set[asyncio.Task[None]] = set()

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        """Raises `AuthenticationError` once the caller's token is not valid any more."""
        caller = self._caller
        if not self._access.is_valid(caller):
            caller = self._caller = self._access.authenticate_now(self._authorization)
        rights = self._access.rights_now(caller, query.state_id)
        if rights is not None:
            return self._ask(caller, rights, query, frame)
        task = asyncio.get_running_loop().create_task(self._ask_later(caller, query, frame))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return None

    async def aclose(self) -> None:
        pending = tuple(self._pending)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        # The sessions and the connection reference each other. The cycle is broken here, because
        # the garbage collector hardly ever runs.
        session, self._session = self._session, None
        self._deliver = _to_nobody
        self._quotas.clear()
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
        if quota is None:
            return session.ask(query, frame)
        self._quotas[query.id] = quota
        answer = session.ask(query, frame)
        if answer is not None:
            del self._quotas[query.id]
            quota.answered(len(answer))
        return answer

    async def _ask_later(self, caller: Caller, query: query_pb2.Query, frame: bytes) -> None:
        try:
            rights = await self._rights(caller, query.state_id)
        except QueryableStateError as refusal:
            answer: bytes | None = frame_of(refusal_of(query.id, refusal))
        else:
            # Queries of many connections may have waited for the same rights; each may be large.
            await self._turns.next()
            answer = self._ask(caller, rights, query, frame)
        if answer is not None:
            self._deliver(query.id, answer, True)

    def _delivered(self, query_id: int, frame: bytes, last: bool) -> None:
        if self._quotas:
            quota = self._quotas.pop(query_id, None) if last else self._quotas.get(query_id)
            if quota is not None:
                quota.answered(len(frame))
        self._deliver(query_id, frame, last)


def _to_nobody(_query_id: int, _frame: bytes, _last: bool) -> None:
    """Drops the answers to a closed connection."""
