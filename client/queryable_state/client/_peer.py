"""One server a client talks to: its channel, its stream, and what is in flight there."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import grpc.aio

from queryable_state.v1 import query_pb2_grpc
from queryable_state.wire.errors import (
    QueryableStateError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.query_stream import CHANNEL_OPTIONS, open_query_stream
from queryable_state.wire.stream_hello import response_of

if TYPE_CHECKING:
    from queryable_state.client._batch import Batch
    from queryable_state.client._dispatcher import Dispatcher
    from queryable_state.wire.query_stream import QueryStream

# Measured: fewer keys a batch cost messages, more keep the other side idle.
BATCH_KEYS = 512
BATCHES_IN_FLIGHT = 4
# Measured: half of so many keys takes longer than the second message that it costs.
_DIVIDED_KEYS = 16
# Batches that wait for the window are joined when their deadlines are this near.
_JOIN_S = 0.02
_CONNECT_TIMEOUT_S = 2.0
_FIRST_BACKOFF_S = 0.05


class Peer:
    """A server by its address.

    `ask` sends a batch at once while fewer than four are in flight, and keeps it
    for later otherwise; those that may wait for a commit do not count, so that they
    hold nobody up. Without a stream it opens one. When one breaks or cannot
    be opened, all batches go back to the dispatcher, and the next attempt waits
    for a time that doubles up to `max_backoff_s`.
    """

    def __init__(
        self, dispatcher: Dispatcher, address: str, client: str, *, max_backoff_s: float
    ) -> None:
        self.address = address
        # gRPC closes a connection with the last reference to its channel, so both are let go of.
        self._channel: grpc.aio.Channel | None = grpc.aio.insecure_channel(
            address, options=CHANNEL_OPTIONS
        )
        self._stub: query_pb2_grpc.QueryableStateAsyncStub | None = (
            query_pb2_grpc.QueryableStateStub(self._channel)
        )
        self._dispatcher = dispatcher
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._stream: QueryStream | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._max_backoff_s = max_backoff_s
        self._backoff_s = _FIRST_BACKOFF_S
        self._connect_at = 0.0
        self._last_id = 0
        # Of batches in flight, while each that may wait for a commit widens it by its own place.
        self._narrowest = self._window = self._widest = BATCHES_IN_FLIGHT
        self._in_flight: dict[int, Batch] = {}
        self._queue: deque[Batch] = deque()
        self._patient: deque[Batch] = deque()
        """Batches that may wait for a commit, and find the window as wide as it may be."""
        self._frame_at = 0.0
        self.batch_keys = BATCH_KEYS
        self._request_bytes = 0
        """Most bytes of a query; 0: not known."""

    @property
    def stub(self) -> query_pb2_grpc.QueryableStateAsyncStub:
        """The unary calls; raises `RetryLaterError` once closed."""
        if self._stub is None:
            raise self.unreachable("its connection was closed")
        return self._stub

    @property
    def is_ready(self) -> bool:
        """Whether a stream is open."""
        return self._stream is not None

    def may_connect(self) -> bool:
        """Whether no attempt failed just now."""
        return self._loop.time() >= self._connect_at

    def connect(self) -> None:
        """Opens a stream in the background, unless there is one or an attempt failed just now."""
        if self._channel is None:
            self._broken(self.unreachable("its connection was closed"))
        elif self._stream is None and self._connecting is None and self.may_connect():
            self._connecting = self._loop.create_task(self._connect(self._channel))

    def ask(self, batch: Batch) -> bool:
        """Takes a batch; False where it was joined to one that waits, and is no batch any more."""
        if batch.lane.may_wait and self._stream is not None:
            batch.peer = self
            self._patient.append(batch)
            self._pump_patient()
            return True
        if self._stream is not None and len(self._in_flight) < self._window:
            self._send(batch)
            return True
        queue = self._queue
        if queue:
            last = queue[-1]
            if (
                last.lane is batch.lane
                and last.codecs is batch.codecs
                and not last.done
                and last.pending is None
                and not last.attempts
                and not batch.attempts
                and len(last.keys) + len(batch.keys) <= self.batch_keys
                and batch.deadline - last.deadline < _JOIN_S
            ):
                last.keys.extend(batch.keys)
                last.waiters = last.waiters.joined(batch.waiters)
                return False
        batch.peer = self
        queue.append(batch)
        if self._stream is None:
            if not self.may_connect() and self._connecting is None:
                self._loop.call_at(self._connect_at, self._connect_for_queue)
            else:
                self.connect()
        return True

    def portion(self, count: int) -> int:
        """How many of `count` keys, each waited for alone, go into one batch.

        Halves where nothing is under way, so that both sides work at once: who asks again with
        each answer stays apart from then on, and in one message would go to and fro together.
        """
        patient = self._window - self._narrowest
        if count < _DIVIDED_KEYS or self._stream is None or len(self._in_flight) > patient:
            return self.batch_keys
        return min(self.batch_keys, -(-count // 2))

    def forget(self, batch: Batch) -> None:
        """Gives up a batch whose time ran out.

        A stream on which nothing came since the batch was sent is given up, too.
        """
        if self._in_flight.pop(batch.query_id, None) is None:
            return
        self._narrow(batch)
        if self._stream is not None and self._frame_at < batch.sent_at:
            stream, self._stream = self._stream, None
            self._dispatcher.run(stream.aclose())
            self._broken(RetryLaterError(f"{self.address} does not answer", retry_after_ms=100))
        else:
            self._pump()

    def retire(self) -> None:
        """Sends its batches elsewhere and closes in the background."""
        self._broken(RetryLaterError(f"{self.address} owns nothing asked for any more"))
        self._dispatcher.run(self.aclose())

    def unreachable(self, details: str) -> RetryLaterError:
        """The error of a server nobody answers at."""
        return RetryLaterError(
            f"no state server or proxy answers at {self.address} ({details}): check host and "
            "port, that the job runs, and that the network lets you through",
            retry_after_ms=100,
        )

    async def aclose(self) -> None:
        """Closes stream and channel; idempotent. Its batches are the dispatcher's to fail."""
        self._in_flight.clear()
        self._queue.clear()
        self._patient.clear()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()
        channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            await channel.close()

    async def _connect(self, channel: grpc.aio.Channel) -> None:
        try:
            stream = await open_query_stream(
                channel,
                self.address,
                client=self._client,
                on_frame=self._on_frame,
                on_end=self._on_end,
                timeout_s=_CONNECT_TIMEOUT_S,
            )
        except QueryableStateError as error:
            self._connecting = None
            self._connect_at = self._loop.time() + self._backoff_s
            self._backoff_s = min(self._max_backoff_s, 2 * self._backoff_s)
            gone = error.reason == Reason.UNAVAILABLE
            self._broken(self.unreachable(error.message) if gone else error)
            return
        self._connecting = None
        self._backoff_s = _FIRST_BACKOFF_S
        limits = stream.hello.limits
        self.batch_keys = min(BATCH_KEYS, limits.batch_keys or BATCH_KEYS)
        self._request_bytes = limits.request_bytes
        most = limits.queries_in_flight or BATCHES_IN_FLIGHT
        self._window = self._narrowest = min(BATCHES_IN_FLIGHT, most)
        self._widest = max(most, self._window + 1)
        self._stream = stream
        self._pump()

    def _connect_for_queue(self) -> None:
        if any(not batch.done for batch in self._queue):
            self.connect()

    def _send(self, batch: Batch) -> None:
        located = batch.lane.handle.located
        stream = self._stream
        assert located is not None
        assert stream is not None
        self._last_id = query_id = self._last_id + 1
        batch.peer = self
        batch.sent_at = now = self._loop.time()
        frame = batch.request(query_id, located.placement_version, located.state_id, now)
        if 0 < self._request_bytes < len(frame) and len(batch.keys) > 1:
            # Not at once: whoever sends it has not admitted it yet.
            self._narrow(batch)
            self._loop.call_soon(self._dispatcher.halve, batch)
            return
        batch.query_id = query_id
        self._in_flight[query_id] = batch
        stream.send(frame)

    def _pump(self) -> None:
        queue = self._queue
        while queue and self._stream is not None and len(self._in_flight) < self._window:
            batch = queue.popleft()
            if batch.done:
                continue
            if batch.lane.may_wait:
                self._patient.append(batch)
            else:
                self._send_or_reroute(batch)
        if self._patient:
            self._pump_patient()

    def _pump_patient(self) -> None:
        patient = self._patient
        while patient and self._stream is not None and self._window < self._widest:
            batch = patient.popleft()
            if not batch.done:
                self._window += 1
                batch.widens = True
                self._send_or_reroute(batch)

    def _send_or_reroute(self, batch: Batch) -> None:
        if batch.codecs is batch.lane.handle.codecs:
            self._send(batch)
        else:
            # The state was made anew since; its keys may have another form.
            self._narrow(batch)
            self._dispatcher.reroute(batch)

    def _narrow(self, batch: Batch) -> None:
        """Takes back the place a batch has made for itself."""
        if batch.widens:
            batch.widens = False
            self._window -= 1

    def _on_frame(self, frame: bytes) -> None:
        answer = response_of(frame, self.address).answer
        self._frame_at = self._loop.time()
        batch = self._in_flight.get(answer.id)
        if batch is None:
            # Its time ran out before the answer came.
            return
        if answer.last:
            del self._in_flight[answer.id]
            batch.query_id = 0
            if batch.widens:
                self._narrow(batch)
        self._dispatcher.answered(batch, answer)
        if self._queue or self._patient:
            self._pump()

    def _on_end(self, error: QueryableStateError) -> None:
        self._stream = None
        self._broken(error)

    def _broken(self, error: QueryableStateError) -> None:
        batches = [*self._in_flight.values(), *self._queue, *self._patient]
        self._in_flight.clear()
        self._queue.clear()
        self._patient.clear()
        for batch in batches:
            self._narrow(batch)
            batch.query_id = 0
            if not batch.done:
                self._dispatcher.failed(batch, batch.left(), error, peer_is_gone=True)
