"""One stream to one server: over frames, or by unary calls and why."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.client.asking import client_of
from tests.query.forwarding import ELSEWHERE, forwarded, port_of, warnings_of_frame_ports
from tests.query.streams import described, frame_port_of, state_id_of, wire_keys

from queryable_state.client import Consistency
from queryable_state.v1 import query_pb2, query_pb2_grpc, registration_pb2
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.frames.query_stream import QueryStream, StreamOpener
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@contextlib.asynccontextmanager
async def opened(
    address: str,
    *,
    server_id: str = "",
    known: query_pb2.ServerDescription | None = None,
    frame_ports: FramePorts | None = None,
) -> AsyncIterator[tuple[QueryStream, asyncio.Queue[Any]]]:
    """A stream to an address, and the answers and the end that it gives."""
    given: asyncio.Queue[Any] = asyncio.Queue()
    async with grpc.aio.insecure_channel(address) as channel:
        stream = await StreamOpener(
            channel,
            address,
            server_id=server_id,
            client="t",
            frame_ports=frame_ports or FramePorts(),
            on_frame=lambda frame: given.put_nowait(query_pb2.ServerFrame.FromString(frame).answer),
            on_end=given.put_nowait,
        ).open(known, 5.0)
        try:
            yield stream, given
        finally:
            await stream.aclose()


async def answered(stream: QueryStream, given: asyncio.Queue[Any], **fields: Any) -> Any:
    query = query_pb2.Query(**({"id": 7, "deadline_ms": 5_000} | fields))
    stream.send(query_pb2.ClientFrame(query=query).SerializeToString())
    async with asyncio.timeout(10):
        return await given.get()


@pytest.mark.parametrize("known", [True, False], ids=["located", "not located"])
async def test_look_ups_go_as_frames_where_the_port_is_reached(
    proxy: ProxyServer, cluster: InProcessCluster, known: bool
) -> None:
    about = await described(proxy.address) if known else None
    async with opened(proxy.address, known=about) as (stream, given):
        assert (stream.transport, stream.server_id) == ("frames", proxy.server_id)
        state_id = await state_id_of(cluster)
        answer = await answered(stream, given, state_id=state_id, keys=wire_keys("sensor_1"))
        assert len(answer.values) == 1


async def test_a_server_that_was_restarted_with_another_frame_port_is_found(
    proxy: ProxyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The place of a state named the old one, where nobody listens."""
    about = await described(proxy.address)
    about.frames.port, about.server_id = 1, "the one before"
    async with opened(proxy.address, known=about) as (stream, _):
        assert (stream.transport, stream.server_id) == ("frames", proxy.server_id)
    assert warnings_of_frame_ports(caplog) == []


@pytest.mark.parametrize("behind", ["nobody", "one that is silent", "another server"])
async def test_look_ups_are_unary_where_the_frame_port_leads_elsewhere(
    cluster: InProcessCluster,
    proxy: ProxyServer,
    behind: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where only the gRPC port is forwarded; one warning names port, reason and setting."""
    port, other = await frame_port_of(proxy.address), await cluster.add_proxy()
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(forwarded(ELSEWHERE, 0, port_of(proxy.address)))
        if behind == "another server":
            to = await frame_port_of(other.address)
            await stack.enter_async_context(forwarded(ELSEWHERE, port, to))
        if behind == "one that is silent":
            stack.enter_context(socket.create_server((ELSEWHERE, port)))
        about, frame_ports = await described(proxy.address), FramePorts()
        for _ in range(2):
            stream, given = await stack.enter_async_context(
                opened(address, known=about, frame_ports=frame_ports)
            )
            assert stream.transport == "unary"
            state_id = await state_id_of(cluster)
            answer = await answered(stream, given, state_id=state_id, keys=wire_keys("sensor_1"))
            assert (answer.id, len(answer.values)) == (7, 1)
    [warning] = warnings_of_frame_ports(caplog)
    for part in (address, f"{ELSEWHERE}:{port}", "spark.queryable_state.server_frame_ports"):
        assert part in warning
    reason = {
        "nobody": "Connect",
        "one that is silent": "no answer in time",
        "another server": f"is another server, {other.server_id}",
    }
    assert reason[behind] in warning


async def test_another_server_than_the_expected_one_is_not_queried(
    proxy: ProxyServer, cluster: InProcessCluster
) -> None:
    """Its answers are those of other jobs, under the same names."""
    known = await described(proxy.address)
    with pytest.raises(RetryLaterError) as raised:
        async with opened(proxy.address, server_id="executor-1-abc", known=known):
            pass
    assert f"executor-1-abc is expected at {proxy.address}" in str(raised.value)
    assert proxy.server_id in str(raised.value)
    query = query_pb2.Query(state_id=await state_id_of(cluster), keys=wire_keys("sensor_1"))
    request = query_pb2.BatchGetKvStateRequest(query=query, server_id="executor-1-abc")
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.BatchGetKvState(request)
    assert error_from_call(refused.value, "proxy").reason == Reason.UNAVAILABLE


async def test_a_caller_learns_why_a_stream_cannot_be_opened(cluster: InProcessCluster) -> None:
    """Nobody there, and somebody of another kind there: the coordinator."""
    for address in ("127.0.0.1:1", cluster.coordinator.address):
        with pytest.raises(QueryableStateError) as raised:
            async with opened(address):
                pass
        assert raised.value.reason in (
            Reason.UNAVAILABLE,
            Reason.UNSUPPORTED,
            Reason.UNAUTHENTICATED,
        )


@contextlib.asynccontextmanager
async def stand_in(frames: registration_pb2.FrameEndpoint) -> AsyncIterator[str]:
    """A server with this frame port, whose unary calls are refused by gRPC itself."""

    async def describe(_request: Any, _context: Any) -> query_pb2.ServerDescription:
        return query_pb2.ServerDescription(server_id="newer", frames=frames)

    async def refuse(_request: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room")

    handlers = {
        "DescribeServer": grpc.unary_unary_rpc_method_handler(
            describe,
            request_deserializer=query_pb2.DescribeServerRequest.FromString,
            response_serializer=query_pb2.ServerDescription.SerializeToString,
        ),
        "BatchGetKvState": grpc.unary_unary_rpc_method_handler(refuse),
    }
    service = "queryable_state.v1.QueryableState"
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def test_a_server_of_other_protocol_versions_is_queried_by_unary_calls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    newer = registration_pb2.FrameEndpoint(port=1, min_version=7, max_version=9)
    async with stand_in(newer) as address, opened(address) as (stream, _):
        assert stream.transport == "unary"
    [warning] = warnings_of_frame_ports(caplog)
    assert "speaks version 1 of the frame protocol" in warning
    assert "server newer speaks versions 7 to 9" in warning


async def test_a_unary_call_that_has_no_room_is_to_be_retried() -> None:
    """As its query over frames would be."""
    async with (
        stand_in(registration_pb2.FrameEndpoint()) as address,
        opened(address) as (stream, given),
    ):
        answer = await answered(stream, given, keys=[b"key"])
        assert (answer.id, answer.last) == (7, True)
        assert answer.error.reason == Reason.OVERLOADED
        assert answer.error.retry_after_ms


@pytest.mark.parametrize("frame_ports", [""], ids=["unary"])
async def test_an_exact_batch_is_read_by_unary_calls_too(
    cluster: InProcessCluster, proxy: ProxyServer, job: InProcessJob
) -> None:
    """Queries wait for the batch, and are refused once it is compacted, as over frames."""
    state_id = await state_id_of(cluster)
    async with opened(proxy.address) as (stream, given):
        asked = {"state_id": state_id, "keys": wire_keys("sensor_1")}
        waiting = asyncio.create_task(answered(stream, given, at_version=1, **asked))
        await asyncio.sleep(0)
        await job.run(1, {"last": {"sensor_1": -1.0}})
        assert (await waiting).info.version == 1
        older = await answered(stream, given, at_version=0, **asked)
        assert (older.info.version, len(older.values)) == (0, 1)
        for batch in range(2, 6):
            await job.run(batch, {"last": {}})
        gone = await answered(stream, given, at_version=0, **asked)
        reasons = {gone.error.reason, *(failed.error.reason for failed in gone.failed)}
        assert Reason.VERSION_GONE in reasons
    async with client_of(proxy.address, direct=False) as client:
        with pytest.raises(RetryLaterError) as behind:
            await client.get_kv_state(
                "sensors",
                "last",
                "sensor_1",
                consistency=Consistency.at_least(9),
                timeout_s=1.5,
            )
        assert behind.value.reason == Reason.BEHIND
