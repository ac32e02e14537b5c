"""One server a client talks to: its channel, its connection, and what waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc.aio

from queryable_state.client._connection.connection import Connection
from queryable_state.client._connection.waiting_batches import WaitingBatches
from queryable_state.client._reading.connection_info import ConnectionInfo
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import (
    QueryableStateError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.frames.query_stream import CHANNEL_OPTIONS, StreamOpener

if TYPE_CHECKING:
    from queryable_state.client._connection.batch import Batch
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.wire.frames.frame_ports import FramePorts

# Measured: fewer keys a batch cost messages, more keep the other side idle.
BATCH_KEYS = 512
# Measured: half of so many keys takes longer than the second message that it costs.
_DIVIDED_KEYS = 16
_CONNECT_TIMEOUT_S = 2.0
_FIRST_BACKOFF_S = 0.05


class ServerConnection:
    """A server by its address and, where one is expected there, its id.

    `ask` sends a batch at once while fewer than four are in flight, and keeps it
    for later otherwise; those that may wait for a commit do not count, so that they
    hold nobody up. Without a connection it opens one. When one breaks or cannot
    be opened, all batches go back to the dispatcher, and the next attempt waits
    for a time that doubles up to `max_backoff_s`. A connection that is to be left
    answers what is in flight there, and gets nothing new.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        address: str,
        client: str,
        *,
        max_backoff_s: float,
        frame_ports: FramePorts,
        server_id: str = "",
        known: query_pb2.ServerDescription | None = None,
    ) -> None:
        """`server_id`: the only server that may answer at the address; empty: any may."""
        self.address = address
        self.server_id = server_id
        self.known = known
        """The server as LocateState described it last."""
        self._frame_ports = frame_ports
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
        self._connection: Connection | None = None
        self._left: set[Connection] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._max_backoff_s = max_backoff_s
        self._backoff_s = _FIRST_BACKOFF_S
        self._connect_at = 0.0
        self._waiting = WaitingBatches(self._send_or_reroute)
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
        """Whether a connection is open."""
        return self._connection is not None

    @property
    def info(self) -> ConnectionInfo:
        """How look-ups go there now."""
        connection = self._connection
        return ConnectionInfo(
            address=self.address,
            server_id=connection.server_id if connection is not None else self.server_id,
            transport=connection.transport if connection is not None else "",
            frame_problem=self._frame_ports.problem(self.address),
        )

    async def connected(self) -> None:
        """Waits for the attempt to connect that is under way, if one is."""
        if self._connecting is not None:
            await asyncio.wait([self._connecting])

    def may_connect(self) -> bool:
        """Whether no attempt failed just now."""
        return self._loop.time() >= self._connect_at

    def connect(self) -> None:
        """Connects in the background, unless it has or an attempt failed just now."""
        if self._channel is None:
            self._broken(self.unreachable("its connection was closed"))
        elif self._connection is None and self._connecting is None and self.may_connect():
            self._connecting = self._loop.create_task(self._connect(self._channel))

    def ask(self, batch: Batch) -> bool:
        """Takes a batch; False where it was joined to one that waits, and is no batch any more."""
        connection = self._connection
        if connection is not None:
            if batch.batcher.may_wait:
                batch.server = self
                self._waiting.add_patient(batch)
                self._waiting.pump_patient(connection)
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
                self._loop.call_at(self._connect_at, self._connect_for_queue)
            else:
                self.connect()
        return True

    def portion(self, count: int) -> int:
        """How many of `count` keys, each waited for alone, go into one batch.

        Halves where nothing is under way, so that both sides work at once: who asks again with
        each answer stays apart from then on, and in one message would go to and fro together.
        """
        connection = self._connection
        if count < _DIVIDED_KEYS or connection is None or not connection.is_idle:
            return self.batch_keys
        return min(self.batch_keys, -(-count // 2))

    def forget(self, batch: Batch) -> None:
        """Gives up a batch whose time ran out.

        A connection on which nothing came since the batch was sent is given up, too.
        """
        for connection in (self._connection, *self._left):
            if connection is None or not connection.holds(batch):
                continue
            if connection.forget(batch):
                self._dispatcher.run(connection.aclose())
                self._on_end(
                    connection,
                    RetryLaterError(f"{self.address} does not answer", retry_after_ms=100),
                )
            else:
                self._on_room()
            return

    def retire(self) -> None:
        """Sends its batches elsewhere and closes in the background."""
        self._frame_ports.forget(self.address)
        error = RetryLaterError(f"{self.address} owns nothing asked for any more")
        for connection in (self._connection, *self._left):
            if connection is not None:
                self._fail(connection.take_all(), error)
        self._broken(error)
        self._dispatcher.run(self.aclose())

    def unreachable(self, details: str) -> RetryLaterError:
        """The error of a server nobody answers at."""
        return RetryLaterError(
            f"no state server or proxy answers at {self.address} ({details}): check host and "
            "port, that the job runs, and that the network lets you through",
            retry_after_ms=100,
        )

    async def aclose(self) -> None:
        """Closes connections and channel; idempotent. Its batches are the dispatcher's to fail."""
        self._waiting.take_all()
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
        connections = {*self._left} if self._connection is None else {*self._left, self._connection}
        self._connection = None
        self._left.clear()
        for connection in connections:
            connection.in_flight.clear()
            await connection.aclose()
        channel, self._channel, self._stub = self._channel, None, None
        if channel is not None:
            await channel.close()

    async def _connect(self, channel: grpc.aio.Channel) -> None:
        connection = Connection(
            self._dispatcher,
            self.address,
            on_room=self._on_room,
            on_leave=self._on_leave,
            on_end=self._on_end,
        )
        try:
            stream = await StreamOpener(
                channel,
                self.address,
                server_id=self.server_id,
                client=self._client,
                frame_ports=self._frame_ports,
                on_frame=connection.on_frame,
                on_end=connection.on_end,
            ).open(self.known, _CONNECT_TIMEOUT_S)
        except QueryableStateError as error:
            self._connecting = None
            self._connect_at = self._loop.time() + self._backoff_s
            self._backoff_s = min(self._max_backoff_s, 2 * self._backoff_s)
            gone = error.reason == Reason.UNAVAILABLE
            self._broken(self.unreachable(error.message) if gone else error)
            return
        self._connecting = None
        self._backoff_s = _FIRST_BACKOFF_S
        self.batch_keys = min(BATCH_KEYS, stream.limits.batch_keys or BATCH_KEYS)
        connection.opened(stream)
        if connection.ended is not None:
            self._broken(connection.ended)
            return
        self._connection = connection
        self._pump()

    def _connect_for_queue(self) -> None:
        if self._waiting.is_wanted():
            self.connect()

    def _pump(self) -> None:
        if self._connection is not None:
            self._waiting.pump(self._connection)

    def _send_or_reroute(self, connection: Connection, batch: Batch) -> None:
        if batch.codecs is batch.batcher.handle.codecs:
            batch.server = self
            connection.send(batch)
        else:
            # The state was made anew since; its keys may have another form.
            connection.narrow(batch)
            self._dispatcher.reroute(batch)

    def _on_room(self) -> None:
        if self._waiting:
            self._pump()
        if self._left:
            self._close_left()

    def _on_leave(self, connection: Connection) -> None:
        """Asks elsewhere from here on, or here on another connection."""
        if self._connection is not connection:
            return
        self._connection = None
        self._left.add(connection)
        self._close_left()
        self.connect()
        for batch in self._waiting.take_all():
            self._dispatcher.reroute(batch)

    def _close_left(self) -> None:
        for connection in tuple(self._left):
            if not connection.in_flight:
                self._left.discard(connection)
                self._dispatcher.run(connection.aclose())

    def _on_end(self, connection: Connection, error: QueryableStateError) -> None:
        self._left.discard(connection)
        self._fail(connection.take_all(), error)
        if self._connection is connection:
            self._connection = None
            self._broken(error)

    def _broken(self, error: QueryableStateError) -> None:
        """Sends what waits for a connection elsewhere."""
        self._fail(self._waiting.take_all(), error)

    def _fail(self, batches: list[Batch], error: QueryableStateError) -> None:
        for batch in batches:
            if not batch.done:
                self._dispatcher.failed(batch, batch.left(), error, peer_is_gone=True)
