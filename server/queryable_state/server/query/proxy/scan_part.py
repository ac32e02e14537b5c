"""One owner's part of a scan, read one run of key groups at a time."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError, QueryTimeoutError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.wire.located_state import Owner


class Piece(NamedTuple):
    """Keys of one run of key groups."""

    message: query_pb2.ScanKvStateResponse
    """The keys, and `info` of the read."""
    ends: bool
    """True if the run has no more keys."""
    truncated: bool
    """True if the run has more keys beyond the limit."""
    complete: bool = True
    """False if the part ends and has lost state, or a key lacks its records."""


class ScanPart:
    """Reads all key groups of a scan from one owner, and returns them one run at a time.

    The call starts at once. The owner's first message, which has no keys, confirms that it has
    pinned the version; later commits do not affect the scan. `aclose` releases the version.
    """

    def __init__(
        self,
        owner: Owner,
        query: ScanQuery,
        messages: AsyncGenerator[query_pb2.ScanKvStateResponse, None],
    ) -> None:
        self._owner = owner
        self._query = query
        self._messages = messages
        self._loop = asyncio.get_running_loop()
        self._reading: asyncio.Task[query_pb2.ScanKvStateResponse] | None = self._loop.create_task(
            self._next()
        )
        self._message = query_pb2.ScanKvStateResponse()
        self._version: int | None = None

    async def pinned(self, until_s: float) -> int:
        """Waits until the version is pinned, and returns it.

        Raises the owner's refusal, or `QueryTimeoutError`.
        """
        if self._version is None:
            self._version = (await self._read(until_s)).info.version
        return self._version

    async def take(self, last_group: int, until_s: float) -> Piece:
        """The next keys up to a key group.

        Raises the owner's refusal, or `QueryTimeoutError`.
        """
        await self.pinned(until_s)
        while not self._message.keys and not self._message.last:
            self._message = await self._read(until_s)
        message, upto = self._message, last_group.to_bytes(2, "big")
        count = bisect_right(message.keys, upto, key=lambda each: each.key[:2])
        if count < len(message.keys):
            piece = query_pb2.ScanKvStateResponse(keys=message.keys[:count], info=message.info)
            del message.keys[:count]
            return Piece(piece, ends=True, truncated=False)
        truncated = message.last and bool(message.page_token)
        # The end of the part also applies to the runs that follow.
        self._message = query_pb2.ScanKvStateResponse(
            info=message.info,
            page_token=message.page_token,
            last=message.last,
            complete=message.complete,
        )
        ends = message.last and not truncated
        return Piece(message, ends, truncated, complete=message.complete or not ends)

    async def aclose(self) -> None:
        """Ends the owner's scan; idempotent."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()
        with suppress(QueryableStateError):
            await self._messages.aclose()

    async def _read(self, until_s: float) -> query_pb2.ScanKvStateResponse:
        if self._reading is None:
            self._reading = self._loop.create_task(self._next())
        # Waited for, not awaited: cancelling the caller must not cancel the read.
        await asyncio.wait([self._reading], timeout=max(0.0, until_s - self._loop.time()))
        if not self._reading.done():
            query = self._query
            raise QueryTimeoutError(
                f"server {self._owner.server_id} at {self._owner.address} did not go on in time "
                f"with key groups {query.first_key_group} to {query.last_key_group} of a scan: "
                "allow more time for a page, or find out why it is slow"
            )
        reading, self._reading = self._reading, None
        return reading.result()

    async def _next(self) -> query_pb2.ScanKvStateResponse:
        async for message in self._messages:
            return message
        raise RetryLaterError(
            f"the answer of {self._owner.address} ended before its last message: scan again",
            retry_after_ms=100,
        )
