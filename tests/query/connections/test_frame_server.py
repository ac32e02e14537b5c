"""Frame connections: what they are refused for, and how they end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.query.streams import Frames, OneSession, frame_port_of

from queryable_state.server.config.limits import Limits
from queryable_state.server.query.frames.frame_server import FrameServer
from queryable_state.server.query.frames.open_streams import OpenStreams
from queryable_state.server.query.router import ServiceInfo
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.frames.framed_stream import PREAMBLE, framed
from queryable_state.wire.frames.stream_hello import client_hello

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", Reason.INVALID_REQUEST),
        (PREAMBLE + framed(b"\xff\xff"), Reason.INVALID_REQUEST),
        (PREAMBLE + b"\xff\xff\xff\xff", Reason.LIMIT_EXCEEDED),
        (PREAMBLE + framed(b""), Reason.INVALID_REQUEST),
        (
            PREAMBLE
            + framed(
                query_pb2.ClientFrame(
                    hello=query_pb2.ClientHello(min_version=7)
                ).SerializeToString()
            ),
            Reason.PROTOCOL_MISMATCH,
        ),
    ],
    ids=["HTTP", "garbage", "a huge frame", "no hello", "another version"],
)
async def test_a_connection_with_another_protocol_gets_an_error_and_is_closed(
    proxy: ProxyServer, first: bytes, reason: int
) -> None:
    frames = await Frames.connect(await frame_port_of(proxy.address), first)
    assert (await frames.refusal()).reason == reason
    frames.writer.close()


async def test_the_preamble_may_come_in_pieces(proxy: ProxyServer) -> None:
    frames = await Frames.connect(await frame_port_of(proxy.address), PREAMBLE[:3])
    await frames.writer.drain()
    frames.writer.write(PREAMBLE[3:] + framed(client_hello("t")))
    assert (await frames.response()).hello.server_id == proxy.server_id
    frames.writer.close()


async def test_a_server_that_stops_says_so_and_asks_nobody_to_wait(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy()
    frames = await Frames.connect(
        await frame_port_of(proxy.address), PREAMBLE + framed(client_hello("t"))
    )
    await frames.response()
    await proxy.aclose()
    refusal = await frames.refusal()
    assert refusal.reason == Reason.STOPPING
    assert refusal.retry_after_ms
    frames.writer.close()


class Echo(OneSession):
    """Answers every query with many bytes, at once."""

    asked = 0

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        self.asked += 1
        answer = query_pb2.Answer(id=query.id, last=True, values=[b"x" * 100_000])
        return query_pb2.ServerFrame(answer=answer).SerializeToString()


async def test_no_more_is_answered_than_a_client_takes() -> None:
    """It gets every answer once it reads."""
    queries = 600
    info = ServiceInfo(server_id="one", role=query_pb2.PROXY, limits=Limits())
    router = Echo()
    server = FrameServer(router, info, OpenStreams(info))
    port = server.add_port("127.0.0.1:0")
    await server.start()
    asked = b"".join(
        framed(
            query_pb2.ClientFrame(
                query=query_pb2.Query(id=number, state_id=1, keys=[b"\x00\x01key"])
            ).SerializeToString()
        )
        for number in range(1, queries + 1)
    )
    frames = await Frames.connect(port, PREAMBLE + framed(client_hello("t")) + asked)
    assert (await frames.response()).hello.server_id == "one"
    for _ in range(20 * queries):
        await asyncio.sleep(0)
    # Some megabytes wait here, some in the sockets.
    assert router.asked * 100_000 < 40 * 1024 * 1024
    for number in range(1, queries + 1):
        assert (await frames.response()).answer.id == number
    frames.writer.close()
    await server.aclose()
