"""Watch of one caller, which ends soon after the caller's token."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from queryable_state.server.security.access.access_control import AccessControl
    from queryable_state.v1 import watch_pb2


class GuardedWatch:
    """A watch that ends when its caller's rights end, even while no state changes."""

    def __init__(self, access: AccessControl, check: Callable[[], None]) -> None:
        """`check` raises the refusal once the caller may not watch any more."""
        self._sessions = access.sessions
        self._check = check
        self._waiting: asyncio.Timeout | None = None

    async def messages(
        self, messages: AsyncGenerator[watch_pb2.WatchKvStateResponse, None]
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """Yields the messages of a watch; raises the refusal of `check`, and closes the watch."""
        self._sessions.add(self)
        try:
            async with aclosing(messages):
                while (message := await self._next(messages)) is not None:
                    self._check()
                    yield message
        finally:
            self._sessions.discard(self)

    def check(self) -> None:
        """Ends the wait for the next message if the caller may not watch any more."""
        try:
            self._check()
        except QueryableStateError:
            if self._waiting is not None:
                self._waiting.reschedule(asyncio.get_running_loop().time())

    async def _next(
        self, messages: AsyncGenerator[watch_pb2.WatchKvStateResponse, None]
    ) -> watch_pb2.WatchKvStateResponse | None:
        waiting = asyncio.timeout(None)
        try:
            async with waiting:
                self._waiting = waiting
                return await anext(messages, None)
        except TimeoutError:
            if not waiting.expired():
                raise
            self._check()
            raise
        finally:
            self._waiting = None
