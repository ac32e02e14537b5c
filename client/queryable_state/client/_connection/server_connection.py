"""Connection to one server, with the batches that wait for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.client._connection.connection import Connection
from queryable_state.client._connection.server_channel import ServerChannel
from queryable_state.client._connection.waiting_batches import WaitingBatches
from queryable_state.client._reading.connection_info import ConnectionInfo
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.frames.query_stream import StreamOpener

if TYPE_CHECKING:
    from queryable_state.client._batching.batch import Batch
    from queryable_state.client._connection.events import BatchEvents
    from queryable_state.v1 import query_pb2, query_pb2_grpc
    from queryable_state.wire.frames.frame_ports import FramePorts
    from queryable_state.wire.security.authorization import Credentials
    from queryable_state.wire.security.connector import Connector

# Measured: smaller batches cost more messages, larger ones leave the other side idle.
BATCH_KEYS = 512
# Measured: from here on, decoding half of the keys takes longer than a second message.
_MIN_SPLIT_KEYS = 16
_CONNECT_TIMEOUT_S = 2.0
_FIRST_BACKOFF_S = 0.05


class ServerConnection:
    """Channel and stream to the server at one address.

    `send` sends a batch at once while fewer than four are in flight and queues it otherwise.
    Batches that may wait for a commit do not count, so that they do not delay others. `send`
    opens a connection if there is none. When a connection breaks or cannot be opened, all batches
    fail over to `events.failed`, and the delay before the next attempt doubles up to
    `max_backoff_s`. A connection whose server asked its clients to leave completes its batches in
    flight and gets no new ones.
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
        self._frame_ports = frame_ports
        self._connector = connector
        self._channel = ServerChannel(address, connector)
        self.diagnosis = self._channel.diagnosis
        self.credentials = credentials
        self._events = events
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._draining: set[Connection] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._max_backoff_s = max_backoff_s
        self._backoff_s = _FIRST_BACKOFF_S
        self._connect_at = 0.0
        self._waiting = WaitingBatches(self._send_or_reroute)
        self.batch_keys = BATCH_KEYS

    @property
    def stub(self) -> query_pb2_grpc.QueryableStateAsyncStub:
        """Stub for unary calls; raises `RetryLaterError` once closed."""
        current = self._channel.current()
        if current is None:
            raise self.unreachable("its connection was closed")
        return current.stub

    @property
    def is_ready(self) -> bool:
        """True if a connection is open."""
        return self._connection is not None

    @property
    def info(self) -> ConnectionInfo:
        """The current transport to the server."""
        connection = self._connection
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
        if self._channel.is_closed:
            self._fail_queued(self.unreachable("its connection was closed"))
        elif self._connection is None and self._connecting is None and self.may_connect():
            self._connecting = self._loop.create_task(self._connect())

    def send(self, batch: Batch) -> bool:
        """Sends or queues a batch; False if its keys were joined to a queued batch instead."""
        connection = self._connection
        if connection is not None:
            if batch.batcher.may_wait:
                batch.server = self
                self._waiting.add_commit_waiter(batch)
                self._waiting.pump_commit_waiters(connection)
                return True
            if connection.has_room:
                batch.server = self
                connection.send(batch)
                return True
        batch.server = self
        if not self._waiting.add(batch, self.batch_keys):
            return False
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
        connection = self._connection
        if count < _MIN_SPLIT_KEYS or connection is None or not connection.is_idle:
            return self.batch_keys
        return min(self.batch_keys, -(-count // 2))

    def forget(self, batch: Batch) -> None:
        """Drops a batch that timed out.

        Also closes the connection if no frame has arrived on it since the batch was sent.
        """
        for connection in (self._connection, *self._draining):
            if connection is None or not connection.holds(batch):
                continue
            if connection.forget(batch):
                self._events.run(connection.aclose())
                self._on_end(
                    connection,
                    RetryLaterError(f"{self.address} does not answer", retry_after_ms=100),
                )
            else:
                self._on_room()
            return

    def retire(self) -> None:
        """Fails its batches over to other servers and closes in the background."""
        self._frame_ports.forget(self.address)
        error = RetryLaterError(f"{self.address} no longer owns a queried state")
        for connection in (self._connection, *self._draining):
            if connection is not None:
                self._fail(connection.take_all(), error)
        self._fail_queued(error)
        self._events.run(self.aclose())

    def unreachable(self, details: str) -> RetryLaterError:
        """Returns the error for an address that does not answer."""
        return RetryLaterError(
            f"no state server or proxy answers at {self.address} ({details}): check host and "
            "port, that the job runs, and that the network lets you through",
            retry_after_ms=100,
        )

    async def aclose(self) -> None:
        """Closes connections and channel; idempotent. The caller fails the batches."""
        self._waiting.take_all()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
        connections = {*self._draining, *filter(None, (self._connection,))}
        self._connection = None
        self._draining.clear()
        for connection in connections:
            connection.in_flight.clear()
            await connection.aclose()
        await self._channel.aclose()

    async def _connect(self) -> None:
        current = self._channel.current()
        assert current is not None
        connection = Connection(
            self._events,
            self.address,
            on_room=self._on_room,
            on_go_away=self._on_go_away,
            on_end=self._on_end,
        )
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
            self._fail_queued(self.unreachable(error.message) if unavailable else error)
            return
        self._connecting = None
        self._backoff_s = _FIRST_BACKOFF_S
        self.batch_keys = min(BATCH_KEYS, stream.limits.batch_keys or BATCH_KEYS)
        connection.opened(stream)
        if connection.ended is not None:
            self._fail_queued(connection.ended)
            return
        self._connection = connection
        self._pump()

    def _connect_if_needed(self) -> None:
        if self._waiting.has_pending():
            self.connect()

    def _pump(self) -> None:
        if self._connection is not None:
            self._waiting.pump(self._connection)

    def _send_or_reroute(self, connection: Connection, batch: Batch) -> None:
        if batch.codecs is batch.batcher.handle.codecs:
            batch.server = self
            connection.send(batch)
        else:
            # The state was registered again; its keys may have another encoding.
            connection.narrow(batch)
            self._events.reroute(batch)

    def _on_room(self) -> None:
        if self._waiting:
            self._pump()
        if self._draining:
            self._close_drained()

    def _on_go_away(self, connection: Connection) -> None:
        """Drains the connection and reroutes the queued batches."""
        if self._connection is not connection:
            return
        self._connection = None
        self._draining.add(connection)
        self._close_drained()
        self.connect()
        for batch in self._waiting.take_all():
            self._events.reroute(batch)

    def _close_drained(self) -> None:
        for connection in tuple(self._draining):
            if not connection.in_flight:
                self._draining.discard(connection)
                self._events.run(connection.aclose())

    def _on_end(self, connection: Connection, error: QueryableStateError) -> None:
        self._draining.discard(connection)
        if error.reason == Reason.UNAUTHENTICATED:
            # The token was valid at first. The next connection sends the current one.
            error = RetryLaterError(error.message, retry_after_ms=1)
        self._fail(connection.take_all(), error)
        if self._connection is connection:
            self._connection = None
            self._fail_queued(error)

    def _fail_queued(self, error: QueryableStateError) -> None:
        """Fails the queued batches over to other servers."""
        self._fail(self._waiting.take_all(), error)

    def _fail(self, batches: list[Batch], error: QueryableStateError) -> None:
        for batch in batches:
            if not batch.done:
                self._events.failed(batch, batch.unanswered(), error, connection_lost=True)
