"""A cluster with one job, and what speaks the public service as bytes or by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc.aio
import pytest

from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessJob


@pytest.fixture
def frame_ports() -> str:
    """The frame port setting; tests of the unary fallback override it."""
    return "0"


@pytest.fixture
def plain_grpc() -> bool:
    """True to serve gRPC with `grpc.aio`; tests of unary calls run both ways."""
    return False


@pytest.fixture
async def cluster(
    tmp_path: Path, frame_ports: str, plain_grpc: bool
) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(
        tmp_path, servers=2, frame_ports=frame_ports, plain_grpc=plain_grpc
    ) as running:
        yield running


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    started = cluster.job(
        "sensors",
        declare("last", "string", "double"),
        declare("seen", "string", "string", kind=registration_pb2.LIST),
    )
    await started.run(
        0,
        {
            "last": {f"sensor_{number}": float(number) for number in range(100)},
            "seen": {"sensor_1": ["a", "b"]},
        },
    )
    return started


@pytest.fixture
async def proxy(cluster: InProcessCluster, job: InProcessJob) -> ProxyServer:
    """A proxy of its own: every key is a hop away."""
    return await cluster.add_proxy()


@pytest.fixture
async def channel(proxy: ProxyServer) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the proxy."""
    async with grpc.aio.insecure_channel(proxy.address) as opened:
        yield opened
