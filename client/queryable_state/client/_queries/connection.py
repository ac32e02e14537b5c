"""Connection to one server: its stream, what is in flight on it, and the batches that wait."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.message import DecodeError

from queryable_state.client._queries.lookups import LoneQuery
from queryable_state.client._reading.connection_info import ConnectionInfo
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.calls.forks import at_fork, keep
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.frames.query_stream import CHANNEL_OPTIONS, StreamOpener
from queryable_state.wire.frames.stream_hello import invalid_frame
from queryable_state.wire.security.tls_probe import TlsDiagnosis

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import grpc.aio

    from queryable_state.client._queries.lookups import Batch, KeyBatcher
    from queryable_state.wire.frames.frame_ports import FramePorts
    from queryable_state.wire.frames.query_stream import QueryStream
    from queryable_state.wire.security.authorization import Credentials
    from queryable_state.wire.security.connector import Connector

BATCHES_IN_FLIGHT = 4
# Measured: smaller batches cost more messages, larger ones leave the other side idle.
BATCH_KEYS = 512
# Measured: from here on, decoding half of the keys takes longer than a second message.
_MIN_SPLIT_KEYS = 16
_CONNECT_TIMEOUT_S = 2.0
_FIRST_BACKOFF_S = 0.05
_GRACE_S = 30.0


class BatchEvents(NamedTuple):
    """What happens next to a batch; the dispatcher's methods."""

    answered: Callable[[Batch, query_pb2.Answer], None]
    """Takes an answer, or one part of it."""

    failed: Callable[[Batch, Sequence[int], QueryableStateError], None]
    """Takes the failure of some keys."""

    lost: Callable[[Batch, QueryableStateError], None]
    """Takes a batch whose connection has ended, or cannot be opened."""

    adopt: Callable[[Batch, ServerConnection], None]
    """Takes the batch of a lone query, which ends as any other batch from now on."""

    halve: Callable[[Batch], None]
    """Takes a batch whose request is longer than its server accepts."""

    reroute: Callable[[Batch], None]
    """Takes a batch that its connection has not sent and cannot send."""

    run: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    """Runs work in the background until the client closes."""


class Connection:
    """One stream to a server, with the queries in flight by id, limited by a window.

    A batch that may wait for a commit widens the window by one while it is in flight, so that it
    does not delay others.
    """

    def __init__(self, server: ServerConnection) -> None:
        self.in_flight: dict[int, Batch] = {}
        self.lone: LoneQuery | None = None
        """The key in flight that was sent alone; no batch was in flight then."""
        self._server = server
        self._events = server.events
        self._loop = asyncio.get_running_loop()
        self._stream: QueryStream | None = None
        self._last_id = 0
        self.window = self._narrowest = self._widest = BATCHES_IN_FLIGHT
        self._request_bytes = 0
        """The longest frame the server accepts; 0: no limit."""
        self._frames = 0
        """Number of frames that have arrived."""
        self._lone_timer: asyncio.TimerHandle | None = None
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
        return len(self.in_flight) + (self.lone is not None) < self.window

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

    def send_alone(self, batcher: KeyBatcher, key: bytes, future: asyncio.Future[Any]) -> bool:
        """Sends the key of a located state if nothing is in flight; else False."""
        stream = self._stream
        if self.in_flight or self.lone is not None or stream is None:
            return False
        codecs = batcher.handle.codecs
        assert codecs is not None
        self._last_id = query_id = self._last_id + 1
        query = batcher.alone_query
        query.id = query_id
        query.keys[0] = key
        deadline = self._loop.time() + batcher.options.timeout_s
        self.lone = LoneQuery(query_id, batcher, codecs, key, future, deadline, self._frames)
        # One timer for the lone queries that follow each other: it looks at the one in flight.
        timer = self._lone_timer
        if timer is None or timer.when() > deadline:
            if timer is not None:
                timer.cancel()
            self._lone_timer = self._loop.call_at(deadline, self._end_late_lone)
        stream.send(batcher.alone_frame.SerializeToString())
        return True

    def send(self, batch: Batch) -> None:
        """Sends a batch; its state must be located."""
        located = batch.batcher.handle.located
        stream = self._stream
        assert located is not None
        assert stream is not None
        self._last_id = query_id = self._last_id + 1
        batch.sent_after = self._frames
        frame = batch.request(
            query_id, located.placement_version, located.state_id, self._loop.time()
        )
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
        return self._frames == batch.sent_after

    def take_all(self) -> list[Batch]:
        """Removes and returns all batches in flight, that of a lone query among them."""
        self.adopt_lone()
        batches = [*self.in_flight.values()]
        self.in_flight.clear()
        for batch in batches:
            self.narrow(batch)
            batch.query_id = 0
        return batches

    def adopt_lone(self) -> None:
        """Makes the lone query in flight a batch, for all that is no answer with its value."""
        lone, self.lone = self.lone, None
        if lone is None:
            return
        batch = lone.batch()
        self.in_flight[lone.query_id] = batch
        self._events.adopt(batch, self._server)

    async def aclose(self) -> None:
        """Ends the stream. Idempotent."""
        stream, self._stream = self._stream, None
        if self._lone_timer is not None:
            self._lone_timer.cancel()
        if stream is not None:
            await stream.aclose()

    def on_frame(self, frame: bytes) -> None:
        """Handles a frame of the stream."""
        server = self._server
        try:
            response = query_pb2.ServerFrame.FromString(frame)
        except DecodeError as problem:
            raise invalid_frame(server.address, problem) from problem
        answer = response.answer
        lone = self.lone
        if lone is not None and answer.id == lone.query_id:
            if lone.deliver(answer):
                self.lone = None
                self._frames += 1
                batcher = lone.batcher
                if any(batch.batcher is batcher for batch in self.in_flight.values()):
                    batcher.hold()
                server.on_room()
                return
            self.adopt_lone()
        self._frames += 1
        batch = self.in_flight.get(answer.id)
        if batch is None:
            # The batch has timed out, or the frame is no answer.
            if response.HasField("go_away") and not self._has_gone_away:
                self._has_gone_away = True
                server.on_go_away(self)
            return
        if answer.last:
            del self.in_flight[answer.id]
            batch.query_id = 0
            if batch.widens:
                self.narrow(batch)
        if batch.batcher.trace is not None:
            batch.batcher.trace.answered(server.info.way, answer)
        self._events.answered(batch, answer)
        server.on_room()

    def on_end(self, error: QueryableStateError) -> None:
        """Handles the end of the stream."""
        self._stream = None
        self.ended = error
        self._server.on_end(self, error)

    def _end_late_lone(self) -> None:
        """Makes a lone query that is late a batch, which ends at once; else looks again."""
        self._lone_timer = None
        lone = self.lone
        if lone is None:
            return
        if lone.deadline <= self._loop.time():
            self.adopt_lone()
        else:
            self._lone_timer = self._loop.call_at(lone.deadline, self._end_late_lone)


class _Channel(NamedTuple):
    channel: grpc.aio.Channel
    stub: query_pb2_grpc.QueryableStateAsyncStub
    generation: int
    """The TLS files with which it was opened, as the connector counts them."""


class ServerConnection:
    """Channel and stream to the server at one address, and the batches that wait for it.

    `send` sends a batch at once while fewer than four are in flight and queues it otherwise.
    Batches that may wait for a commit do not count, so that they do not delay others; they are
    queued only while the window has its maximum width. `send` opens a connection if there is none.
    When a connection breaks or cannot be opened, all batches fail over to `events.lost`, and the
    delay before the next attempt doubles up to `max_backoff_s`. A connection whose server asked
    its clients to leave completes its batches in flight and gets no new ones.

    The channel is opened anew when TLS files change; calls of a replaced one go on for up to 30 s.
    gRPC closes a connection with the last reference to its channel: callers must not keep one.
    """

    def __init__(
        self,
        events: BatchEvents,
        address: str,
        client: str,
        *,
        max_backoff_s: float,
        frame_ports: FramePorts,
        connector: Connector,
        credentials: Credentials | None = None,
        server_id: str = "",
        known: query_pb2.ServerDescription | None = None,
    ) -> None:
        """`server_id`: the only server accepted at the address; empty: any server."""
        self.address = address
        self.server_id = server_id
        self.known = known
        """The latest description of the server by LocateState."""
        self.connection: Connection | None = None
        """None: none is open."""
        self.diagnosis = TlsDiagnosis(address, connector)
        self.credentials = credentials
        self.events = events
        self._frame_ports = frame_ports
        self._connector = connector
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._closing: set[asyncio.Task[None]] = set()
        self._channel: _Channel | None = self._opened_channel()
        self._draining: set[Connection] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._max_backoff_s = max_backoff_s
        self._backoff_s = _FIRST_BACKOFF_S
        self._connect_at = 0.0
        self._queue: deque[Batch] = deque()
        self._commit_waiters: deque[Batch] = deque()
        self.batch_keys = BATCH_KEYS
        at_fork(self)

    @property
    def stub(self) -> query_pb2_grpc.QueryableStateAsyncStub:
        """Stub for unary calls; raises `RetryLaterError` once closed."""
        current = self._current_channel()
        if current is None:
            raise self.unreachable("its connection was closed")
        return current.stub

    @property
    def info(self) -> ConnectionInfo:
        """The current transport to the server."""
        connection = self.connection
        return ConnectionInfo(
            address=self.address,
            server_id=connection.server_id if connection is not None else self.server_id,
            transport=connection.transport if connection is not None else "",
            frame_problem=self._frame_ports.problem(self.address),
        )

    async def connected(self) -> None:
        """Waits for the current attempt to connect, if there is one."""
        if self._connecting is not None:
            await asyncio.wait([self._connecting])

    def may_connect(self) -> bool:
        """True if no backoff is running."""
        return self._loop.time() >= self._connect_at

    def connect(self) -> None:
        """Connects in the background, unless it is connected or a backoff is running."""
        if self._channel is None:
            self._fail(self._take_queued(), self.unreachable("its connection was closed"))
        elif self.connection is None and self._connecting is None and self.may_connect():
            self._connecting = self._loop.create_task(self._connect())

    def send(self, batch: Batch) -> bool:
        """Sends or queues a batch; False if its keys were joined to a queued batch instead."""
        connection, queue = self.connection, self._queue
        if connection is not None:
            if batch.batcher.may_wait:
                self._commit_waiters.append(batch)
                self._pump_commit_waiters(connection)
                return True
            if connection.has_room:
                connection.send(batch)
                return True
        if queue and queue[-1].join(batch, self.batch_keys):
            return False
        queue.append(batch)
        if connection is None:
            if not self.may_connect() and self._connecting is None:
                self._loop.call_at(self._connect_at, self._connect_if_needed)
            else:
                self.connect()
        return True

    def batch_size(self, count: int) -> int:
        """Returns how many of `count` single-key lookups go into one batch.

        Two halves while the connection is idle, so that client and server work at the same time:
        callers that continue with another lookup then stay in two alternating batches.
        """
        connection = self.connection
        if count < _MIN_SPLIT_KEYS or connection is None or not connection.is_idle:
            return self.batch_keys
        return min(self.batch_keys, -(-count // 2))

    def forget(self, batch: Batch) -> None:
        """Drops a batch that timed out.

        Also closes the connection if no frame has arrived on it since the batch was sent.
        """
        for connection in (self.connection, *self._draining):
            if connection is None or not connection.holds(batch):
                continue
            if connection.forget(batch):
                self.events.run(connection.aclose())
                self.on_end(
                    connection,
                    RetryLaterError(f"{self.address} does not answer", retry_after_ms=100),
                )
            else:
                self.on_room()
            return

    def adopt_lone(self) -> None:
        """Makes the lone query in flight a batch, before the client ends all batches."""
        for connection in (self.connection, *self._draining):
            if connection is not None:
                connection.adopt_lone()

    def retire(self) -> None:
        """Fails its batches over to other servers and closes in the background."""
        self._frame_ports.forget(self.address)
        error = RetryLaterError(f"{self.address} no longer owns a queried state")
        for connection in (self.connection, *self._draining):
            if connection is not None:
                self._fail(connection.take_all(), error)
        self._fail(self._take_queued(), error)
        self.events.run(self.aclose())

    def unreachable(self, details: str) -> RetryLaterError:
        """Returns the error for an address that does not answer."""
        return RetryLaterError(
            f"no state server or proxy answers at {self.address} ({details}): check host and "
            "port, that the job runs, and that the network lets you through",
            retry_after_ms=100,
        )

    def leave_to_parent(self) -> None:
        """Has no channel any more, in a forked process."""
        keep(self._channel, *self._closing)
        self._channel = None

    async def aclose(self) -> None:
        """Closes connections and channel; idempotent. The caller fails the batches."""
        self._take_queued()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
        connections = {*self._draining, *filter(None, (self.connection,))}
        self.connection = None
        self._draining.clear()
        for connection in connections:
            connection.in_flight.clear()
            await connection.aclose()
        channel, self._channel = self._channel, None
        for closing in tuple(self._closing):
            closing.cancel()
        if channel is not None:
            await channel.channel.close()

    def on_room(self) -> None:
        """Sends what waits, once the window has room."""
        if self._queue or self._commit_waiters:
            self._pump()
        if self._draining:
            self._close_drained()

    def on_go_away(self, connection: Connection) -> None:
        """Drains a connection whose server asks its clients to leave; reroutes queued batches."""
        if self.connection is not connection:
            return
        self.connection = None
        self._draining.add(connection)
        self._close_drained()
        self.connect()
        for batch in self._take_queued():
            self.events.reroute(batch)

    def on_end(self, connection: Connection, error: QueryableStateError) -> None:
        """Fails over what was in flight on a connection that has ended."""
        self._draining.discard(connection)
        if error.reason == Reason.UNAUTHENTICATED:
            # The token was valid at first. The next connection sends the current one.
            error = RetryLaterError(error.message, retry_after_ms=1)
        self._fail(connection.take_all(), error)
        if self.connection is connection:
            self.connection = None
            self._fail(self._take_queued(), error)

    async def _connect(self) -> None:
        current = self._current_channel()
        assert current is not None
        connection = Connection(self)
        try:
            stream = await StreamOpener(
                current.channel,
                self.address,
                server_id=self.server_id,
                client=self._client,
                frame_ports=self._frame_ports,
                connector=self._connector,
                on_frame=connection.on_frame,
                on_end=connection.on_end,
                credentials=self.credentials,
            ).open(self.known, _CONNECT_TIMEOUT_S)
        except QueryableStateError as error:
            self._connecting = None
            self._connect_at = self._loop.time() + self._backoff_s
            self._backoff_s = min(self._max_backoff_s, 2 * self._backoff_s)
            unavailable = error.reason == Reason.UNAVAILABLE
            reason = self.unreachable(error.message) if unavailable else error
            self._fail(self._take_queued(), reason)
            return
        self._connecting = None
        self._backoff_s = _FIRST_BACKOFF_S
        self.batch_keys = min(BATCH_KEYS, stream.limits.batch_keys or BATCH_KEYS)
        connection.opened(stream)
        if connection.ended is not None:
            self._fail(self._take_queued(), connection.ended)
            return
        self.connection = connection
        self._pump()

    def _connect_if_needed(self) -> None:
        if any(not batch.done for batch in self._queue):
            self.connect()

    def _pump(self) -> None:
        """Sends as many waiting batches as the window has room for."""
        connection, queue = self.connection, self._queue
        if connection is None:
            return
        while queue and connection.has_room:
            batch = queue.popleft()
            if batch.done:
                continue
            if batch.batcher.may_wait:
                self._commit_waiters.append(batch)
            else:
                self._send_or_reroute(connection, batch)
        self._pump_commit_waiters(connection)

    def _pump_commit_waiters(self, connection: Connection) -> None:
        """Sends commit waiters while the window can be widened."""
        waiters = self._commit_waiters
        while waiters:
            batch = waiters[0]
            if batch.done:
                waiters.popleft()
            elif connection.widen(batch):
                waiters.popleft()
                self._send_or_reroute(connection, batch)
            else:
                return

    def _send_or_reroute(self, connection: Connection, batch: Batch) -> None:
        if batch.codecs is batch.batcher.handle.codecs:
            connection.send(batch)
        else:
            # The state was registered again; its keys may have another encoding.
            connection.narrow(batch)
            self.events.reroute(batch)

    def _take_queued(self) -> list[Batch]:
        """Removes all waiting batches; returns those that are not done."""
        waiting = [batch for batch in (*self._queue, *self._commit_waiters) if not batch.done]
        self._queue.clear()
        self._commit_waiters.clear()
        return waiting

    def _close_drained(self) -> None:
        for connection in tuple(self._draining):
            if not connection.in_flight and connection.lone is None:
                self._draining.discard(connection)
                self.events.run(connection.aclose())

    def _fail(self, batches: list[Batch], error: QueryableStateError) -> None:
        """Fails batches over to other servers."""
        for batch in batches:
            if not batch.done:
                self.events.lost(batch, error)

    def _current_channel(self) -> _Channel | None:
        """The channel and stub of the next call; None once closed."""
        channel = self._channel
        if channel is not None and channel.generation != self._connector.generation:
            closing = asyncio.get_running_loop().create_task(channel.channel.close(_GRACE_S))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            channel = self._channel = self._opened_channel()
        return channel

    def _opened_channel(self) -> _Channel:
        generation = self._connector.generation
        channel = self._connector.channel(self.address, CHANNEL_OPTIONS)
        return _Channel(channel, query_pb2_grpc.QueryableStateStub(channel), generation)
