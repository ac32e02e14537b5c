"""Streams without gRPC: what connections of frames are refused for, and when gRPC takes over."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import grpc.aio
import pytest
from tests.query.forwarding import ELSEWHERE, forwarded
from tests.query.streams import OneSession, RawStream, state_id_of, wire_keys

from queryable_state.server.query.frames.frame_server import FrameServer
from queryable_state.server.query.frames.open_streams import OpenStreams
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.settings import Limits
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.frames.framed_stream import PREAMBLE, FrameReader, framed
from queryable_state.wire.frames.query_stream import QueryStream, open_query_stream
from queryable_state.wire.frames.stream_hello import client_hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


class Frames:
    """A connection of frames by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameReader(1 << 20)

    @classmethod
    async def connect(cls, port: int, first: bytes) -> Frames:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        return cls(reader, writer)

    async def response(self) -> query_pb2.StreamKvStateResponse:
        async with asyncio.timeout(10):
            while (frame := self._frames.take()) is None:
                data = await self.reader.read(65536)
                assert data, "the server hung up"
                self._frames.feed(data)
        return query_pb2.StreamKvStateResponse.FromString(frame)

    async def refusal(self) -> QueryableStateError:
        """Why the server hangs up; it has to."""
        refusal = QueryableStateError.from_proto((await self.response()).error)
        async with asyncio.timeout(10):
            assert await self.reader.read() == b""
        return refusal


async def frame_port(proxy: ProxyServer) -> int:
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        return (await RawStream(channel).greet()).frame_port


async def asked_over(
    address: str, state_id: int, on_end: Callable[[QueryableStateError], None] = lambda _: None
) -> tuple[QueryStream, query_pb2.Answer]:
    """The stream that a client opens at an address, and what it answers for a key."""
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    async with grpc.aio.insecure_channel(address) as channel:
        stream = await open_query_stream(
            channel,
            address,
            server_id="",
            client="t",
            frame_ports=FramePorts(),
            on_frame=answered.set_result,
            on_end=on_end,
            timeout_s=5,
        )
        query = query_pb2.Query(id=1, state_id=state_id, keys=wire_keys("sensor_1"))
        stream.send(query_pb2.StreamKvStateRequest(query=query).SerializeToString())
        async with asyncio.timeout(10):
            answer = query_pb2.StreamKvStateResponse.FromString(await answered).answer
        await stream.aclose()
    return stream, answer


async def test_a_stream_goes_over_frames_where_the_server_takes_them(
    proxy: ProxyServer, cluster: InProcessCluster
) -> None:
    stream, answer = await asked_over(proxy.address, await state_id_of(cluster))
    assert stream.transport == "frames"
    assert len(answer.values) == 1


async def test_a_stream_stays_on_grpc_where_there_is_no_frame_port(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy(frame_ports="")
    stream, answer = await asked_over(proxy.address, await state_id_of(cluster))
    assert stream.transport == "grpc"
    assert len(answer.values) == 1


async def test_a_server_that_took_the_port_of_another_is_not_asked(proxy: ProxyServer) -> None:
    """Its answers are those of other jobs, under the same names."""
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        with pytest.raises(RetryLaterError) as raised:
            await open_query_stream(
                channel,
                proxy.address,
                server_id="executor-1-abc",
                client="t",
                frame_ports=FramePorts(),
                on_frame=lambda _: None,
                on_end=lambda _: None,
                timeout_s=5,
            )
    assert f"executor-1-abc is expected at {proxy.address}" in str(raised.value)
    assert proxy.server_id in str(raised.value)


@pytest.mark.parametrize("behind", ["nobody", "one that is silent", "another server"])
async def test_a_stream_stays_on_grpc_where_the_frame_port_leads_elsewhere(
    cluster: InProcessCluster, proxy: ProxyServer, behind: str
) -> None:
    """As where the one port is forwarded, and the other is not."""
    port, other = await frame_port(proxy), await frame_port(await cluster.add_proxy())
    grpc_port = int(proxy.address.rpartition(":")[2])
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(forwarded(ELSEWHERE, 0, grpc_port))
        if behind == "another server":
            await stack.enter_async_context(forwarded(ELSEWHERE, port, other))
        if behind == "one that is silent":
            stack.enter_context(socket.create_server((ELSEWHERE, port)))
        stream, answer = await asked_over(address, await state_id_of(cluster))
        assert stream.transport == "grpc"
        assert len(answer.values) == 1


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
                query_pb2.StreamKvStateRequest(
                    hello=query_pb2.ClientHello(protocol_version=7)
                ).SerializeToString()
            ),
            Reason.PROTOCOL_MISMATCH,
        ),
    ],
    ids=["HTTP", "garbage", "a huge frame", "no hello", "another version"],
)
async def test_who_speaks_something_else_is_told_so_and_hung_up_on(
    proxy: ProxyServer, first: bytes, reason: int
) -> None:
    frames = await Frames.connect(await frame_port(proxy), first)
    assert (await frames.refusal()).reason == reason
    frames.writer.close()


async def test_the_preamble_may_come_in_pieces(proxy: ProxyServer) -> None:
    frames = await Frames.connect(await frame_port(proxy), PREAMBLE[:3])
    await frames.writer.drain()
    frames.writer.write(PREAMBLE[3:] + framed(client_hello("t")))
    assert (await frames.response()).hello.server_id == proxy.server_id
    frames.writer.close()


async def test_streams_of_both_kinds_count_together(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy(limits=Limits(streams=2))
    port = await frame_port(proxy)
    async with grpc.aio.insecure_channel(proxy.address) as channel, RawStream(channel):
        second = await Frames.connect(port, PREAMBLE + framed(client_hello("t")))
        assert (await second.response()).hello.server_id
        third = await Frames.connect(port, PREAMBLE + framed(client_hello("t")))
        assert (await third.refusal()).reason == Reason.OVERLOADED
        second.writer.close()
        third.writer.close()


async def test_a_server_that_stops_says_so_and_asks_nobody_to_wait(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy()
    frames = await Frames.connect(await frame_port(proxy), PREAMBLE + framed(client_hello("t")))
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
        return query_pb2.StreamKvStateResponse(answer=answer).SerializeToString()


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
            query_pb2.StreamKvStateRequest(
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
