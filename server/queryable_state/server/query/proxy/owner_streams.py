"""The streams of a proxy to owners: gRPC channels that are shared, one stream per asker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc.aio

from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.frames.query_stream import CHANNEL_OPTIONS, StreamOpener
from queryable_state.wire.frames.stream_hello import response_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.query.proxy.proxied_query import SubQuery
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.frames.query_stream import QueryStream
    from queryable_state.wire.located_state import Owner

_CONNECT_TIMEOUT_S = 2.0


class Channels:
    """One channel an address, open while somebody uses it.

    gRPC closes a connection with the last reference to its channel, so nobody
    keeps one that was given back.
    """

    def __init__(self) -> None:
        self.frame_ports = FramePorts()
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._users: dict[str, int] = {}

    def take(self, address: str) -> grpc.aio.Channel:
        """The channel to an address; `give_back` it."""
        channel = self._channels.get(address)
        if channel is None:
            channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
            self._channels[address] = channel
        self._users[address] = self._users.get(address, 0) + 1
        return channel

    async def give_back(self, address: str) -> None:
        """Closes the channel with its last user."""
        self._users[address] -= 1
        if not self._users[address]:
            del self._users[address]
            await self._channels.pop(address).close()


class OwnerStream:
    """The stream to one owner for the queries of one asker.

    Opened with the first query. `on_answer` gets each answer to a part with its
    frame; `on_leave` is called when the owner wants to be asked no more, and after each answer from
    then on; `on_end` once with the reason when the stream broke or could not be opened, and
    `asked` then holds the parts without an answer.
    """

    def __init__(
        self,
        owner: Owner,
        channels: Channels,
        *,
        server_id: str,
        on_leave: Callable[[OwnerStream], None],
        on_answer: Callable[[SubQuery, query_pb2.Answer, bytes], None],
        on_end: Callable[[OwnerStream, QueryableStateError], None],
    ) -> None:
        self._owner = owner
        self.address, self.owner_id = owner.address, owner.server_id
        self.asked: dict[int, SubQuery] = {}
        self._channels = channels
        self._client = f"proxy {server_id}"
        self._on_answer = on_answer
        self._on_leave = on_leave
        self._on_end = on_end
        self.left = False
        """It gets no more queries; what was asked is answered."""
        self._stream: QueryStream | None = None
        self._backlog: list[bytes] = []
        self._closed = False
        self._opening = asyncio.get_running_loop().create_task(
            self._open(channels.take(owner.address), owner.description())
        )

    def ask(self, query_id: int, frame: bytes, part: SubQuery) -> None:
        """Sends a query whose answers are to `part`."""
        part.asked_of(self._owner)
        self.asked[query_id] = part
        if self._stream is not None:
            self._stream.send(frame)
        else:
            self._backlog.append(frame)

    @property
    def _way(self) -> str:
        """How queries go to the owner now, and why not as frames."""
        problem = self._channels.frame_ports.problem(self.address)
        over = self._stream.transport if self._stream is not None else "a connection that has ended"
        return f" over {over}" + (f" ({problem})" if problem else "")

    async def aclose(self) -> None:
        """Ends the stream and gives back the channel; idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._opening is not asyncio.current_task():
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()
        await self._channels.give_back(self.address)

    async def _open(self, channel: grpc.aio.Channel, known: query_pb2.ServerDescription) -> None:
        try:
            stream = await StreamOpener(
                channel,
                self.address,
                server_id=self.owner_id,
                client=self._client,
                frame_ports=self._channels.frame_ports,
                on_frame=self._on_frame,
                on_end=self._ended,
            ).open(known, _CONNECT_TIMEOUT_S)
        except QueryableStateError as error:
            self._ended(error)
            return
        self._stream = stream
        for frame in self._backlog:
            stream.send(frame)
        self._backlog.clear()

    def _on_frame(self, frame: bytes) -> None:
        response = response_of(frame, self.address)
        answer = response.answer
        part = self.asked.get(answer.id)
        if part is not None:
            if answer.last:
                del self.asked[answer.id]
            if part.query.trace is not None:
                part.answered(answer, self._way)
            self._on_answer(part, answer, frame)
        if self.left or response.HasField("go_away"):
            self.left = True
            self._on_leave(self)

    def _ended(self, error: QueryableStateError) -> None:
        if not self._closed:
            self._on_end(self, error)


class OwnerStreams:
    """The streams of one asker, one an address, opened when they are needed."""

    def __init__(
        self,
        channels: Channels,
        *,
        server_id: str,
        on_answer: Callable[[SubQuery, query_pb2.Answer, bytes], None],
        on_end: Callable[[OwnerStream, QueryableStateError], None],
    ) -> None:
        self._channels = channels
        self._server_id = server_id
        self._on_answer = on_answer
        self._on_end = on_end
        self._by_address: dict[str, OwnerStream] = {}
        self._left: set[OwnerStream] = set()
        self._closing: set[asyncio.Task[None]] = set()

    def to(self, owner: Owner) -> OwnerStream:
        """The stream to an owner."""
        owner_stream = self._by_address.get(owner.address)
        if owner_stream is not None and owner_stream.owner_id != owner.server_id:
            owner_stream.left = True
            self._leave(owner_stream)
            owner_stream = None
        if owner_stream is None:
            owner_stream = self._by_address[owner.address] = OwnerStream(
                owner,
                self._channels,
                server_id=self._server_id,
                on_leave=self._leave,
                on_answer=self._on_answer,
                on_end=self._on_end,
            )
        return owner_stream

    def forget(self, owner_stream: OwnerStream) -> None:
        """The next query to its address opens another one; closing it is the caller's."""
        self._left.discard(owner_stream)
        if self._by_address.get(owner_stream.address) is owner_stream:
            del self._by_address[owner_stream.address]

    async def aclose(self) -> None:
        """Closes them all; nothing of the asker is kept."""
        owner_streams = (*self._by_address.values(), *self._left)
        self._by_address.clear()
        self._left.clear()
        self._on_answer, self._on_end = _ignore_answer, _ignore_end
        for owner_stream in owner_streams:
            await owner_stream.aclose()
        await asyncio.gather(*self._closing)

    def _leave(self, owner_stream: OwnerStream) -> None:
        """Asks others from here on, and closes it with the last answer."""
        self.forget(owner_stream)
        if owner_stream.asked:
            self._left.add(owner_stream)
            return
        closing = asyncio.get_running_loop().create_task(owner_stream.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _ignore_answer(_part: SubQuery, _answer: query_pb2.Answer, _frame: bytes) -> None:
    """Takes what an asker that is gone would have."""


def _ignore_end(_owner_stream: OwnerStream, _error: QueryableStateError) -> None:
    """Takes what an asker that is gone would have."""
