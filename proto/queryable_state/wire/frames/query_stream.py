"""The asking side of a stream of queries: hello, then serialized frames both ways.

Client and proxy ask alike; the one reads the answers, the other may relay them.
The server is found, and says hello, over gRPC. Where it names a frame port the
frames go there, without HTTP/2: a message costs a fifth of the time. Where that
port cannot be reached, as behind a firewall, they go over the gRPC stream until it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from queryable_state.wire.addresses import host_and_port, join_address
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.errors import QueryableStateError, RetryLaterError
from queryable_state.wire.frames.framed_stream import FramedStream
from queryable_state.wire.frames.grpc_stream import GrpcStream, open_call
from queryable_state.wire.frames.moving_stream import MovingStream

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc.aio

    from queryable_state.v1 import query_pb2
    from queryable_state.wire.frames.frame_ports import FramePorts

CHANNEL_OPTIONS = channel_options(longest_reconnect_ms=500, own_connections=True)

# A port that nobody lets through swallows the attempt. Queries wait for the first one; later ones
# are made in the background.
_FIRST_ATTEMPT_S = 0.25
_LATER_ATTEMPTS_S = 3.0


class QueryStream(Protocol):
    """One open stream to one server."""

    @property
    def hello(self) -> query_pb2.ServerHello:
        """What the server said first."""
        ...

    @property
    def transport(self) -> str:
        """How queries are sent now: "frames" or "grpc"."""
        ...

    def send(self, frame: bytes) -> None:
        """Sends a serialized `StreamKvStateRequest` after those before it; never blocks."""
        ...

    async def aclose(self) -> None:
        """Ends the stream and waits until nothing of it runs. Idempotent."""
        ...


class SlowStream(QueryStream, Protocol):
    """A stream that queries leave for a faster one."""

    def finish(self) -> None:
        """Sends nothing more; the stream ends by itself, and silently, when all is answered."""
        ...


async def open_query_stream(
    channel: grpc.aio.Channel,
    address: str,
    *,
    server_id: str,
    client: str,
    frame_ports: FramePorts,
    on_frame: Callable[[bytes], None],
    on_end: Callable[[QueryableStateError], None],
    timeout_s: float,
) -> QueryStream:
    """Says hello to the server at HOST:PORT, and returns once it did.

    `on_frame` gets each serialized `StreamKvStateResponse` after hello, on the
    loop and in order; `on_end` is called once, when the stream ended by itself,
    with the reason, after which nothing is received or sent. After `aclose`
    neither is called. What becomes of the server's frame port is told to `frame_ports`.

    Raises the server's refusal, or `RetryLaterError` where none answers at the
    address within `timeout_s`, or another one than `server_id` does (empty: any may).
    """
    call, hello = await open_call(channel, address, client=client, timeout_s=timeout_s)
    if server_id and hello.server_id != server_id:
        # A port that was free again, or an address that was translated on the way.
        call.cancel()
        raise RetryLaterError(
            f"server {server_id} is expected at {address}, and {hello.server_id} answers there: "
            "one has taken the port of the other",
            retry_after_ms=100,
        )
    if not hello.frame_port:
        frame_ports.forget(address)
        return GrpcStream(call, address, hello, on_frame=on_frame, on_end=on_end)
    host = host_and_port(address)[0]
    frame_address = join_address(host, hello.frame_port)

    async def over_frames(
        on_end: Callable[[QueryableStateError], None], timeout_s: float = _LATER_ATTEMPTS_S
    ) -> FramedStream:
        try:
            framed = await FramedStream.open(
                host,
                hello.frame_port,
                server_id=hello.server_id,
                client=client,
                on_frame=on_frame,
                on_end=on_end,
                timeout_s=timeout_s,
            )
        except (OSError, QueryableStateError) as failure:
            frame_ports.missed(address, frame_address, failure)
            raise
        frame_ports.reached(address, frame_address)
        return framed

    # A port that was missed by the stream before is left to the background.
    if not frame_ports.problem(address):
        try:
            framed = await over_frames(on_end, _FIRST_ATTEMPT_S)
        except (OSError, QueryableStateError):
            # It is logged, and tried again.
            pass
        except BaseException:
            call.cancel()
            raise
        else:
            call.cancel()
            return framed
    return MovingStream(
        lambda on_end: GrpcStream(call, address, hello, on_frame=on_frame, on_end=on_end),
        over_frames,
        on_end=on_end,
    )
