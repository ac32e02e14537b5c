"""One stream to a server, and the batches in flight on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.wire.frames.stream_hello import response_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client._connection.batch import Batch
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.frames.query_stream import QueryStream

BATCHES_IN_FLIGHT = 4


class Connection:
    """Batches by the id of their query, and the window: how many there may be at a time.

    A batch that may wait for a commit widens the window by its own place, so that it holds nobody
    up. `on_room` is called after answers, `on_leave` once when the server asks its clients to go
    elsewhere, `on_end` once when the stream has ended by itself.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        address: str,
        *,
        on_room: Callable[[], None],
        on_leave: Callable[[Connection], None],
        on_end: Callable[[Connection, QueryableStateError], None],
    ) -> None:
        self.in_flight: dict[int, Batch] = {}
        self._dispatcher = dispatcher
        self._address = address
        self._on_room = on_room
        self._on_leave = on_leave
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._stream: QueryStream | None = None
        self._last_id = 0
        self.window = self._narrowest = self._widest = BATCHES_IN_FLIGHT
        self._request_bytes = 0
        """The longest frame the server takes; 0: any."""
        self._frame_at = 0.0
        self._told_to_leave = False
        self.ended: QueryableStateError | None = None
        """Why the stream has ended by itself."""

    def opened(self, stream: QueryStream) -> None:
        """Takes the stream once its server has answered; it may have ended since."""
        self._stream = None if self.ended else stream
        most = stream.limits.queries_in_flight or BATCHES_IN_FLIGHT
        self.window = self._narrowest = min(BATCHES_IN_FLIGHT, most)
        self._widest = max(most, self.window + 1)
        self._request_bytes = stream.limits.request_bytes

    @property
    def server_id(self) -> str:
        """The id of the server."""
        return self._stream.server_id if self._stream is not None else ""

    @property
    def transport(self) -> str:
        """How batches are sent now."""
        return self._stream.transport if self._stream is not None else ""

    @property
    def has_room(self) -> bool:
        """Whether another batch may be sent."""
        return len(self.in_flight) < self.window

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight but what may wait for a commit."""
        return len(self.in_flight) <= self.window - self._narrowest

    def widen(self, batch: Batch) -> bool:
        """Makes a place of its own for a batch that may wait; False where there are enough."""
        if self.window >= self._widest:
            return False
        self.window += 1
        batch.widens = True
        return True

    def narrow(self, batch: Batch) -> None:
        """Takes back the place a batch has made for itself."""
        if batch.widens:
            batch.widens = False
            self.window -= 1

    def send(self, batch: Batch) -> None:
        """Sends a batch of a located state."""
        located = batch.batcher.handle.located
        stream = self._stream
        assert located is not None
        assert stream is not None
        self._last_id = query_id = self._last_id + 1
        batch.sent_at = now = self._loop.time()
        frame = batch.request(query_id, located.placement_version, located.state_id, now)
        if 0 < self._request_bytes < len(frame) and len(batch.keys) > 1:
            # Not at once: whoever sends it has not admitted it yet.
            self.narrow(batch)
            self._loop.call_soon(self._dispatcher.halve, batch)
            return
        batch.query_id = query_id
        if batch.batcher.trace is not None:
            batch.batcher.trace.sent(batch, len(self.in_flight))
        self.in_flight[query_id] = batch
        stream.send(frame)

    def holds(self, batch: Batch) -> bool:
        """Whether the batch is in flight here."""
        return self.in_flight.get(batch.query_id) is batch

    def forget(self, batch: Batch) -> bool:
        """Gives up a batch in flight; whether nothing at all came since it was sent."""
        del self.in_flight[batch.query_id]
        self.narrow(batch)
        return self._frame_at < batch.sent_at

    def take_all(self) -> list[Batch]:
        """Gives up all batches in flight."""
        batches = [*self.in_flight.values()]
        self.in_flight.clear()
        for batch in batches:
            self.narrow(batch)
            batch.query_id = 0
        return batches

    async def aclose(self) -> None:
        """Ends the stream. Idempotent."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()

    def on_frame(self, frame: bytes) -> None:
        """Takes a frame of the stream."""
        response = response_of(frame, self._address)
        answer = response.answer
        self._frame_at = self._loop.time()
        batch = self.in_flight.get(answer.id)
        if batch is None:
            # Its time ran out before the answer came, or it is none.
            if response.HasField("go_away") and not self._told_to_leave:
                self._told_to_leave = True
                self._on_leave(self)
            return
        if answer.last:
            del self.in_flight[answer.id]
            batch.query_id = 0
            if batch.widens:
                self.narrow(batch)
        if batch.batcher.trace is not None:
            batch.batcher.trace.answered(batch, answer)
        self._dispatcher.answered(batch, answer)
        self._on_room()

    def on_end(self, error: QueryableStateError) -> None:
        """Takes the end of the stream."""
        self._stream = None
        self.ended = error
        self._on_end(self, error)
