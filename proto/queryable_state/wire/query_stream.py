"""The asking side of a stream of queries: hello, then serialized frames both ways.

Client and proxy ask alike; the one reads the answers, the other may relay them.
The server is found, and says hello, over gRPC. Where it names a frame port the
frames go there, without HTTP/2: a message costs a fifth of the time. Where that
port cannot be reached, as behind a firewall, they stay on the gRPC stream.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import QueryableStateError, RetryLaterError
from queryable_state.wire.framed_stream import FramedStream
from queryable_state.wire.grpc_stream import GrpcStream, open_call

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc.aio

    from queryable_state.v1 import query_pb2

_log = logging.getLogger(__name__)

CHANNEL_OPTIONS = (
    # Answers are bounded by the server's limits, which are above gRPC's default of 4 MiB.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A server that is back is found again soon.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Connections, and what is known of their failures, end with their channel.
    ("grpc.use_local_subchannel_pool", 1),
    # State servers are peers of a cluster: no proxy of the environment stands between.
    ("grpc.enable_http_proxy", 0),
)

# A port that nobody lets through swallows the attempt; queries wait for it meanwhile.
_FRAMED_TIMEOUT_S = 0.25


class QueryStream(Protocol):
    """One open stream to one server."""

    hello: query_pb2.ServerHello

    def send(self, frame: bytes) -> None:
        """Sends a serialized `StreamKvStateRequest` after those before it; never blocks."""
        ...

    async def aclose(self) -> None:
        """Ends the stream and waits until nothing of it runs. Idempotent."""
        ...


async def open_query_stream(
    channel: grpc.aio.Channel,
    address: str,
    *,
    server_id: str,
    client: str,
    on_frame: Callable[[bytes], None],
    on_end: Callable[[QueryableStateError], None],
    timeout_s: float,
) -> QueryStream:
    """Says hello to the server at HOST:PORT, and returns once it did.

    `on_frame` gets each serialized `StreamKvStateResponse` after hello, on the
    loop and in order; `on_end` is called once, when the stream ended by itself,
    with the reason, after which nothing is received or sent. After `aclose`
    neither is called.

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
    if hello.frame_port:
        try:
            framed = await FramedStream.open(
                host_and_port(address)[0],
                hello.frame_port,
                server_id=hello.server_id,
                client=client,
                on_frame=on_frame,
                on_end=on_end,
                timeout_s=_FRAMED_TIMEOUT_S,
            )
        except (OSError, QueryableStateError) as problem:
            _log.info("%s: queries stay on gRPC, for its frame port: %r", address, problem)
        except BaseException:
            call.cancel()
            raise
        else:
            call.cancel()
            return framed
    return GrpcStream(call, address, hello, on_frame=on_frame, on_end=on_end)
