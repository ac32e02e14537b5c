"""One stream to a server and its batches in flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.wire.frames.stream_hello import response_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client._batching.batch import Batch
    from queryable_state.client._connection.events import BatchEvents
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.frames.query_stream import QueryStream

BATCHES_IN_FLIGHT = 4


class Connection:
    """Batches in flight by query id, limited by a window.

    A batch that may wait for a commit widens the window by one while it is in flight, so that it
    does not delay others. `on_room` is called after each answer, `on_go_away` once when the server
    asks its clients to leave, `on_end` once when the stream ends by itself.
    """

    def __init__(
        self,
        events: BatchEvents,
        address: str,
        *,
        on_room: Callable[[], None],
        on_go_away: Callable[[Connection], None],
        on_end: Callable[[Connection, QueryableStateError], None],
    ) -> None:
        self.in_flight: dict[int, Batch] = {}
        self._events = events
        self._address = address
        self._on_room = on_room
        self._on_go_away = on_go_away
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._stream: QueryStream | None = None
        self._last_id = 0
        self.window = self._narrowest = self._widest = BATCHES_IN_FLIGHT
        self._request_bytes = 0
        """The longest frame the server accepts; 0: no limit."""
        self._frame_at = 0.0
        self._has_gone_away = False
        self.ended: QueryableStateError | None = None
        """Error that ended the stream; None: it has not ended by itself."""

    def opened(self, stream: QueryStream) -> None:
        """Takes the open stream and the server's limits; the stream may have ended already."""
        self._stream = None if self.ended else stream
        most = stream.limits.queries_in_flight or BATCHES_IN_FLIGHT
        self.window = self._narrowest = min(BATCHES_IN_FLIGHT, most)
        self._widest = max(most, self.window + 1)
        self._request_bytes = stream.limits.request_bytes

    @property
    def server_id(self) -> str:
        """The id of the server; empty if the stream is closed."""
        return self._stream.server_id if self._stream is not None else ""

    @property
    def transport(self) -> str:
        """The current transport, "frames" or "unary"; empty if the stream is closed."""
        return self._stream.transport if self._stream is not None else ""

    @property
    def has_room(self) -> bool:
        """True if the window has room for another batch."""
        return len(self.in_flight) < self.window

    @property
    def is_idle(self) -> bool:
        """True if only batches that may wait for a commit are in flight."""
        return len(self.in_flight) <= self.window - self._narrowest

    def widen(self, batch: Batch) -> bool:
        """Widens the window for a batch that may wait; False if it has its maximum width."""
        if self.window >= self._widest:
            return False
        self.window += 1
        batch.widens = True
        return True

    def narrow(self, batch: Batch) -> None:
        """Narrows the window again if the batch has widened it."""
        if batch.widens:
            batch.widens = False
            self.window -= 1

    def send(self, batch: Batch) -> None:
        """Sends a batch; its state must be located."""
        located = batch.batcher.handle.located
        stream = self._stream
        assert located is not None
        assert stream is not None
        self._last_id = query_id = self._last_id + 1
        batch.sent_at = now = self._loop.time()
        frame = batch.request(query_id, located.placement_version, located.state_id, now)
        if 0 < self._request_bytes < len(frame) and len(batch.keys) > 1:
            # Not at once: the sender admits the batch only after this call.
            self.narrow(batch)
            self._loop.call_soon(self._events.halve, batch)
            return
        batch.query_id = query_id
        if batch.batcher.trace is not None:
            batch.batcher.trace.sent(len(batch.keys), len(self.in_flight))
        self.in_flight[query_id] = batch
        stream.send(frame)

    def holds(self, batch: Batch) -> bool:
        """True if the batch is in flight here."""
        return self.in_flight.get(batch.query_id) is batch

    def forget(self, batch: Batch) -> bool:
        """Removes a batch in flight; True if no frame has arrived since it was sent."""
        del self.in_flight[batch.query_id]
        self.narrow(batch)
        return self._frame_at < batch.sent_at

    def take_all(self) -> list[Batch]:
        """Removes and returns all batches in flight."""
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
        """Handles a frame of the stream."""
        response = response_of(frame, self._address)
        answer = response.answer
        self._frame_at = self._loop.time()
        batch = self.in_flight.get(answer.id)
        if batch is None:
            # The batch has timed out, or the frame is no answer.
            if response.HasField("go_away") and not self._has_gone_away:
                self._has_gone_away = True
                self._on_go_away(self)
            return
        if answer.last:
            del self.in_flight[answer.id]
            batch.query_id = 0
            if batch.widens:
                self.narrow(batch)
        if batch.batcher.trace is not None:
            batch.batcher.trace.answered(batch.way(), answer)
        self._events.answered(batch, answer)
        self._on_room()

    def on_end(self, error: QueryableStateError) -> None:
        """Handles the end of the stream."""
        self._stream = None
        self.ended = error
        self._on_end(self, error)
