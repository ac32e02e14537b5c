"""What the health of each port says, and when."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.query.proxy.watching import NOT_SERVING, SERVICE, SERVING, Watched
from tests.waiting import DEADLINE_S

from queryable_state.server.serving.health_service import HealthService
from queryable_state.server.testing.cluster import InProcessCluster

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.testing.cluster import InProcessJob


@pytest.fixture(params=[False, True], ids=["grpc core", "grpc.aio"])
def plain_grpc(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def test_a_server_without_a_lease_is_not_serving_until_it_has_one(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """On its own port and on its proxy's: neither can answer."""
    server = cluster.servers[0]
    for address in (server.addresses.query, server.addresses.proxy):
        async with grpc.aio.insecure_channel(address) as channel:
            watched = Watched(channel)
            await watched.until(SERVING)
            losing = asyncio.create_task(_lose_again_and_again(server.lease))
            await watched.until(NOT_SERVING)
            losing.cancel()
            # The next heartbeat renews it.
            await watched.until(SERVING)


async def _lose_again_and_again(lease: Lease) -> None:
    """Whatever a heartbeat does meanwhile."""
    while True:
        lease.end()
        await asyncio.sleep(0.02)


async def test_a_proxy_that_does_not_reach_the_coordinator_is_not_serving_until_it_does(
    tmp_path: Path,
) -> None:
    async with InProcessCluster(tmp_path, servers=1) as cluster:
        proxy = await cluster.add_proxy()
        async with grpc.aio.insecure_channel(proxy.address) as channel:
            watched = Watched(channel)
            await watched.until(SERVING)
            address, secret = cluster.coordinator.address, cluster.coordinator.secret
            await asyncio.to_thread(cluster.coordinator.coordinator.close)
            await watched.until(NOT_SERVING)
            again = await asyncio.to_thread(started_again, address, secret)
            try:
                await watched.until(SERVING)
            finally:
                await asyncio.to_thread(again.close)


def started_again(address: str, secret: str) -> Any:
    """A coordinator at the address of one that has ended."""
    from queryable_state.server.coordinator import Coordinator
    from queryable_state.server.coordinator.settings import CoordinatorSettings
    from queryable_state.server.testing.engine import InMemoryEngine

    settings = CoordinatorSettings(ports=address.rpartition(":")[2], secret=secret)
    return Coordinator(InMemoryEngine(), settings).start()


async def test_open_watches_do_not_keep_a_server_from_ending(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy(drain_timeout_s=60)
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        watched = Watched(channel)
        await watched.until(SERVING)
        began = time.monotonic()
        await proxy.aclose()
        assert time.monotonic() - began < DEADLINE_S


async def test_a_service_that_is_not_there_is_unknown(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.proxy) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="other")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.Check(request, timeout=DEADLINE_S)
        assert raised.value.code() == grpc.StatusCode.NOT_FOUND
        watch = stub.Watch(request)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()


async def test_a_watcher_that_takes_nothing_holds_nobody_up() -> None:
    """What is to be told is set at once, and told to those who take it."""
    health = HealthService([SERVICE])
    stuck, served = asyncio.Event(), asyncio.Event()

    class Taker:
        def __init__(self, takes: bool) -> None:
            self.takes = takes

        def peer(self) -> str:
            return "ipv4:127.0.0.1:1"

        async def write(self, response: health_pb2.HealthCheckResponse) -> None:
            if not self.takes:
                stuck.set()
                await asyncio.Event().wait()
            if response.status == SERVING:
                served.set()

    request = health_pb2.HealthCheckRequest(service=SERVICE)
    takers: list[Any] = [Taker(False), Taker(True)]
    watches = [asyncio.create_task(health.Watch(request, taker)) for taker in takers]
    async with asyncio.timeout(DEADLINE_S):
        await stuck.wait()
        health.set(True)
        await served.wait()
    for watch in watches:
        watch.cancel()
    await asyncio.gather(*watches, return_exceptions=True)


async def test_a_connection_may_have_a_limited_number_of_watches(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Watches need no token. Checks are still answered."""
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.proxy) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        watches = [stub.Watch(request, timeout=DEADLINE_S) for _ in range(16)]
        for watch in watches:
            await watch.read()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.Watch(request, timeout=DEADLINE_S).read()
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await stub.Check(request, timeout=DEADLINE_S)).status == SERVING
        for watch in watches:
            watch.cancel()
