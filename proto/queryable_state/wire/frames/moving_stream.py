"""A stream of queries over gRPC that moves to the server's frame port once that is reached."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.v1 import query_pb2
    from queryable_state.wire.frames.query_stream import QueryStream, SlowStream

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


class MovingStream:
    """A `QueryStream` that answers by `slow` and tries `connect` in the background.

    Queries sent before the move are answered by the slow stream, which has ended its side then and
    ends with its last answer; those sent after it go over frames. `connect(on_end)` raises
    `OSError` or `QueryableStateError` where the frame port is not reached; the next attempt comes
    after a time that doubles. Neither stream is lost alone: the end of one ends the whole, so that
    its asker asks all again that is unanswered.
    """

    def __init__(
        self,
        slow: Callable[[Callable[[QueryableStateError], None]], SlowStream],
        connect: Callable[[Callable[[QueryableStateError], None]], Awaitable[QueryStream]],
        *,
        on_end: Callable[[QueryableStateError], None],
    ) -> None:
        self._connect = connect
        self._on_end = on_end
        self._ended = False
        self._slow = slow(self._end)
        self._fast: QueryStream | None = None
        self._moving: asyncio.Task[None] | None = asyncio.get_running_loop().create_task(
            self._move()
        )
        self._closing: asyncio.Task[None] | None = None

    @property
    def hello(self) -> query_pb2.ServerHello:
        """What the server said first."""
        return self._slow.hello

    @property
    def transport(self) -> str:
        """How queries are sent now."""
        return self._slow.transport if self._fast is None else self._fast.transport

    def send(self, frame: bytes) -> None:
        """Sends a serialized `StreamKvStateRequest`; never blocks."""
        (self._slow if self._fast is None else self._fast).send(frame)

    async def aclose(self) -> None:
        """Ends both streams and the attempts. Idempotent."""
        self._ended = True
        moving, self._moving = self._moving, None
        if moving is not None:
            moving.cancel()
            await asyncio.gather(moving, return_exceptions=True)
        await self._slow.aclose()
        if self._fast is not None:
            await self._fast.aclose()

    async def _move(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            # Not all at once, after a server was away.
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
            try:
                self._fast = await self._connect(self._end)
            except (OSError, QueryableStateError):
                continue
            self._slow.finish()
            return

    def _end(self, error: QueryableStateError) -> None:
        if not self._ended:
            self._ended = True
            self._closing = asyncio.get_running_loop().create_task(self.aclose())
            self._on_end(error)
