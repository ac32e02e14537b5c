"""One owner's part of a scan."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.v1 import query_pb2


class ScanPart:
    """Asks one owner for contiguous key groups; its first message is asked for at once.

    With that one the owner has pinned the version: what is committed meanwhile does not matter,
    however late the messages are taken. `aclose` lets go of it.
    """

    def __init__(
        self, query: ScanQuery, messages: AsyncGenerator[query_pb2.ScanKvStateResponse, None]
    ) -> None:
        self.query = query
        self._messages = messages
        self._first: asyncio.Task[query_pb2.ScanKvStateResponse] | None = (
            asyncio.get_running_loop().create_task(self._next())
        )

    async def pinned(self) -> int:
        """The version, once it is pinned; before `next`. Raises what the owner refuses."""
        assert self._first is not None
        # Not awaited itself: who is cancelled while waiting takes nothing along.
        await asyncio.wait([self._first])
        return self._first.result().info.version

    async def next(self) -> query_pb2.ScanKvStateResponse:
        """The next message, until the last one. Raises what the owner refuses."""
        if self._first is None:
            return await self._next()
        await asyncio.wait([self._first])
        first, self._first = self._first, None
        return first.result()

    async def aclose(self) -> None:
        """Ends the owner's scan; idempotent."""
        first, self._first = self._first, None
        if first is not None:
            first.cancel()
            await asyncio.wait([first])
            if not first.cancelled():
                first.exception()
        with suppress(QueryableStateError):
            await self._messages.aclose()

    async def _next(self) -> query_pb2.ScanKvStateResponse:
        async for message in self._messages:
            return message
        raise RetryLaterError(
            f"the answer for key groups {self.query.first_key_group} to "
            f"{self.query.last_key_group} ended before its last message: scan again",
            retry_after_ms=100,
        )
