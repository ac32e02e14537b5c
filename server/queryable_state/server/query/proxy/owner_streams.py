"""Query streams of a proxy to owners, one for each client session, over shared gRPC channels."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeAlias

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.wire.errors import AuthenticationError, QueryableStateError, RetryLaterError
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.frames.query_stream import CHANNEL_OPTIONS, StreamOpener
from queryable_state.wire.frames.stream_hello import response_of
from queryable_state.wire.security.connector import CLEAR_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc.aio

    from queryable_state.server.query.proxy.proxied_query import SubQuery
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.frames.query_stream import QueryStream
    from queryable_state.wire.located_state import Owner
    from queryable_state.wire.security.connector import Connector
    from queryable_state.wire.security.signed_calls import CallSigner

_log = logging.getLogger(__name__)
_refusals = RateLimitedLog(_log)

_CONNECT_TIMEOUT_S = 2.0
_RETRY_AFTER_MS = 500

# HOST:PORT, and the generation of the TLS files with which the channel was opened.
_Key: TypeAlias = tuple[str, int]


class Channels:
    """gRPC channels by address, reference-counted.

    gRPC closes a connection with the last reference to its channel, so callers must not keep a
    channel that they have given back.
    """

    def __init__(self, signer: CallSigner | None = None, connector: Connector = CLEAR_TEXT) -> None:
        """`signer`: of the application; None: the calls carry no signature."""
        self.frame_ports = FramePorts()
        self.connector = connector
        self._signer = signer
        self._signers: dict[str, CallSigner] = {}
        self._channels: dict[_Key, grpc.aio.Channel] = {}
        self._users: dict[_Key, int] = {}

    def take(self, address: str) -> tuple[_Key, grpc.aio.Channel]:
        """Returns the channel to an address, and by what the caller must `give_back` it."""
        key = (address, self.connector.generation)
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = self.connector.channel(address, CHANNEL_OPTIONS)
        self._users[key] = self._users.get(key, 0) + 1
        return key, channel

    def credentials(self, owner: Owner) -> CallSigner | None:
        """The signer of the calls to an owner."""
        if self._signer is None:
            return None
        signer = self._signers.get(owner.address)
        if signer is None or signer.audience != owner.server_id:
            signer = self._signers[owner.address] = self._signer.to(owner.server_id)
        return signer

    def refusal(self, error: QueryableStateError, owner: Owner) -> QueryableStateError:
        """The error of an owner for clients, who cannot mend the secret of this process."""
        if not isinstance(error, AuthenticationError):
            return error
        text = f"server {owner.server_id} at {owner.address} refuses this process: {error}"
        _refusals.write(logging.WARNING, "signature", "%s", text)
        return RetryLaterError(text, retry_after_ms=_RETRY_AFTER_MS)

    async def give_back(self, key: _Key) -> None:
        """Ends one `take`; the last one closes the channel."""
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key]
            self._signers.pop(key[0], None)
            await self._channels.pop(key).close()


class OwnerStream:
    """The stream to one owner for the queries of one client session.

    It opens on creation, and buffers queries until it is open. `on_answer` gets each answer to a
    part with its frame. `on_leave` is called when the owner sends go-away, and after each later
    answer. `on_end` is called once, with the reason, when the stream breaks or cannot be opened;
    `pending` then has the parts without an answer.
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
        self.pending: dict[int, SubQuery] = {}
        self._channels = channels
        self._client = f"proxy {server_id}"
        self._on_answer = on_answer
        self._on_leave = on_leave
        self._on_end = on_end
        self.left = False
        """True after go-away: the stream gets no more queries; pending ones are answered."""
        self._stream: QueryStream | None = None
        self._backlog: list[bytes] = []
        self._closed = False
        self._taken, channel = channels.take(owner.address)
        self._opening = asyncio.get_running_loop().create_task(
            self._open(channel, owner.description())
        )

    def ask(self, query_id: int, frame: bytes, part: SubQuery) -> None:
        """Sends a query; its answers belong to `part`."""
        part.started(self._owner)
        self.pending[query_id] = part
        if self._stream is not None:
            self._stream.send(frame)
        else:
            self._backlog.append(frame)

    @property
    def _route_text(self) -> str:
        """The transport of the stream for a trace, and the reason if it is not frames."""
        problem = self._channels.frame_ports.problem(self.address)
        over = self._stream.transport if self._stream is not None else "a connection that has ended"
        return f" over {over}" + (f" ({problem})" if problem else "")

    async def aclose(self) -> None:
        """Closes the stream and gives back the channel; idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._opening is not asyncio.current_task():
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()
        await self._channels.give_back(self._taken)

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
                connector=self._channels.connector,
                credentials=self._channels.credentials(self._owner),
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
        part = self.pending.get(answer.id)
        if part is not None:
            if answer.last:
                del self.pending[answer.id]
            if part.query.trace is not None:
                part.answered(answer, self._route_text)
            self._on_answer(part, answer, frame)
        if self.left or response.HasField("go_away"):
            self.left = True
            self._on_leave(self)

    def _ended(self, error: QueryableStateError) -> None:
        if not self._closed:
            self._on_end(self, self._channels.refusal(error, self._owner))


class OwnerStreams:
    """The streams of one client session, one for each address, opened on demand."""

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
        """Returns the stream to an owner; opens it if there is none."""
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
        """Removes a stream, so that the next query opens another one; the caller closes it."""
        self._left.discard(owner_stream)
        if self._by_address.get(owner_stream.address) is owner_stream:
            del self._by_address[owner_stream.address]

    async def aclose(self) -> None:
        """Closes all streams and drops the callbacks."""
        owner_streams = (*self._by_address.values(), *self._left)
        self._by_address.clear()
        self._left.clear()
        self._on_answer, self._on_end = _ignore_answer, _ignore_end
        for owner_stream in owner_streams:
            await owner_stream.aclose()
        await asyncio.gather(*self._closing)

    def _leave(self, owner_stream: OwnerStream) -> None:
        """Sends no more queries over a stream, and closes it after its last answer."""
        self.forget(owner_stream)
        if owner_stream.pending:
            self._left.add(owner_stream)
            return
        closing = asyncio.get_running_loop().create_task(owner_stream.aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _ignore_answer(_part: SubQuery, _answer: query_pb2.Answer, _frame: bytes) -> None:
    """Drops an event of a session that is closed."""


def _ignore_end(_owner_stream: OwnerStream, _error: QueryableStateError) -> None:
    """Drops an event of a session that is closed."""
