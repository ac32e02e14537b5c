"""One owner's part of a watch."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from queryable_state.server.query.watch_query import HEARTBEAT_S
from queryable_state.wire.errors import QueryableStateError, RetryLaterError
from queryable_state.wire.keys.store_keys import changed_record_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from queryable_state.v1 import watch_pb2
    from queryable_state.wire.located_state import Owner

# Heartbeats that an owner may omit before its part is opened again.
_MISSED_HEARTBEATS = 4


class WatchPart:
    """Reads one owner's changes, one message ahead. Event loop only.

    `aclose` ends the owner's watch.
    """

    def __init__(
        self, owner: Owner, messages: AsyncGenerator[watch_pb2.WatchKvStateResponse, None]
    ) -> None:
        self._owner = owner
        self._messages = messages
        self._loop = asyncio.get_running_loop()
        self._head: watch_pb2.WatchKvStateResponse | None = None
        self.done = -1
        """The owner has no further changes up to this batch, unless `head` has some."""
        self.reading: asyncio.Task[watch_pb2.WatchKvStateResponse] | None = None
        """The read of the next message; None if `head` is not used up yet."""
        self.read_on()

    @property
    def head(self) -> watch_pb2.WatchKvStateResponse | None:
        """The newest message, until it is used up; None: it is not there yet."""
        if self._head is None and self.reading is not None and self.reading.done():
            reading, self.reading = self.reading, None
            self._head = reading.result()
            ends = self._head.complete and not self._head.changes
            self.done = max(self.done, self._head.batch - (not ends))
        return self._head

    def read_on(self) -> None:
        """Drops the head and reads the next message."""
        if self._head is not None and self._head.complete:
            self.done = max(self.done, self._head.batch)
        self._head = None
        if self.reading is None:
            self.reading = self._loop.create_task(self._next())
            # The watch may have ended by another part's refusal before it sees this one's.
            self.reading.add_done_callback(_retrieve)

    def positions(self) -> list[bytes]:
        """The positions of the changes in `head`, ascending."""
        head = self.head
        return [] if head is None else [changed_record_key(change) for change in head.changes]

    async def aclose(self) -> None:
        """Ends the owner's watch; idempotent."""
        reading, self.reading = self.reading, None
        if reading is not None:
            reading.cancel()
            await asyncio.wait([reading])
        with suppress(QueryableStateError):
            await self._messages.aclose()

    async def _next(self) -> watch_pb2.WatchKvStateResponse:
        try:
            async with asyncio.timeout(_MISSED_HEARTBEATS * HEARTBEAT_S):
                async for message in self._messages:
                    return message
        except TimeoutError:
            raise RetryLaterError(
                f"server {self._owner.server_id} at {self._owner.address} does not send the "
                "heartbeats of a watch any more: continue behind the last batch",
                retry_after_ms=100,
            ) from None
        raise RetryLaterError(
            f"server {self._owner.server_id} at {self._owner.address} ended a watch: continue "
            "behind the last batch",
            retry_after_ms=100,
        )


def _retrieve(reading: asyncio.Task[watch_pb2.WatchKvStateResponse]) -> None:
    """Marks a refusal as seen; `head` raises it."""
    if not reading.cancelled():
        reading.exception()
