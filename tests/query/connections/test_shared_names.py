"""Names behind which there are several servers: by several addresses, or by a balancer."""

from __future__ import annotations

import contextlib
import logging
import socket
from typing import TYPE_CHECKING, Any

import grpc.aio
from tests.query.forwarding import (
    ELSEWHERE,
    forwarded,
    free_ports,
    port_of,
    warnings_of_frame_ports,
)
from tests.waiting import DEADLINE_S

from queryable_state.client import QueryableStateClient
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.frames.query_stream import StreamOpener

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NAME = "proxies.example"


async def stored(cluster: InProcessCluster) -> None:
    job = cluster.job("sensors", declare("last", "string", "double"))
    await job.run(0, {"last": {"sensor_1": 1.5}})
    await job.run(1, {"last": {}})


async def frame_port_of(address: str) -> int:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = query_pb2_grpc.QueryableStateStub(channel)
        described = await stub.DescribeServer(query_pb2.DescribeServerRequest())
        port: int = described.frames.port
        return port


async def test_frames_find_the_server_that_grpc_has_reached_behind_a_balancer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each connection goes to the next of two proxies; the first one of frames to the other."""
    caplog.set_level(logging.INFO)
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(InProcessCluster(tmp_path))
        await stored(cluster)
        *inside, published = free_ports(5)
        for port, frame_port in (inside[:2], inside[2:]):
            await cluster.add_proxy(
                ports=str(port), frame_ports=str(frame_port), advertised_frame_port=published
            )
        await stack.enter_async_context(forwarded(ELSEWHERE, published, inside[3], inside[1]))
        balancer = await stack.enter_async_context(forwarded(ELSEWHERE, 0, inside[0], inside[2]))
        port = port_of(balancer)
        async with QueryableStateClient(
            ELSEWHERE, port, timeout_s=DEADLINE_S, direct=False
        ) as client:
            state = await client.get_kv_state("sensors", "last", "sensor_1")
            assert state.value() == 1.5
            assert client.connections()[0].transport == "frames"
    assert warnings_of_frame_ports(caplog) == []


async def test_frames_find_the_server_that_grpc_has_reached_by_a_name_of_two_addresses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first address of the name is that of another proxy with the same port."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host != NAME:
            return resolve(host, port, *arguments, **options)
        return [
            found
            for address in (ELSEWHERE, "127.0.0.1")
            for found in resolve(address, port, *arguments, **options)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(InProcessCluster(tmp_path))
        first, second = await cluster.add_proxy(), await cluster.add_proxy()
        ports = [await frame_port_of(proxy.address) for proxy in (first, second)]
        await stack.enter_async_context(forwarded(ELSEWHERE, *ports))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(first.address))
        stream = await StreamOpener(
            channel,
            f"{NAME}:{port_of(first.address)}",
            server_id="",
            client="t",
            frame_ports=FramePorts(),
            on_frame=lambda _frame: None,
            on_end=lambda _error: None,
        ).open(None, DEADLINE_S)
        assert (stream.transport, stream.server_id) == ("frames", first.server_id)
        await stream.aclose()
    assert warnings_of_frame_ports(caplog) == []
