"""Clients with several addresses, and addresses at which no server answers."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import (
    InvalidRequestError,
    NothingListensError,
    QueryableStateClient,
    QueryTimeoutError,
    RetryLaterError,
    blocking,
)
from queryable_state.v1 import query_pb2, query_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

KEYS = [f"sensor_{number}" for number in range(100)]


@pytest.fixture(params=["0", ""], ids=["frames", "unary"])
def frame_ports(request: pytest.FixtureRequest) -> str:
    """Both ways of look-ups."""
    ports: str = request.param
    return ports


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def killed(proxy: ProxyServer) -> None:
    """Ends a proxy as a crash does: without waiting for its clients."""
    proxy.shutdown.give_up()
    await proxy.aclose()


async def stopped(proxy: ProxyServer) -> None:
    """Ends a proxy as SIGTERM does, after its time as a lame duck."""
    await proxy.aclose()


@pytest.mark.parametrize("end", [killed, stopped])
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_a_client_moves_to_its_next_address_and_no_query_fails(
    cluster: InProcessCluster,
    job: InProcessJob,
    direct: bool,
    end: Callable[[ProxyServer], Awaitable[None]],
) -> None:
    """Look-ups, listings and scans, while one proxy after the other goes."""
    proxies = [await cluster.add_proxy() for _ in range(3)]
    addresses = [proxy.address for proxy in proxies]
    answered, stop = 0, False

    async with QueryableStateClient(
        addresses=addresses, timeout_s=DEADLINE_S, direct=direct
    ) as client:

        async def ask() -> None:
            nonlocal answered
            while not stop:
                states = await client.get_kv_states("sensors", "last", KEYS)
                assert [state and state.value() for state in states] == [*map(float, range(100))]
                assert len(await client.list_jobs()) == 1
                scanned = [key async for key, _ in client.scan("sensors", "last")]
                assert len(scanned) == 100
                answered += 1

        asking = [asyncio.create_task(ask()) for _ in range(4)]
        try:
            for proxy in proxies[:2]:
                before = answered
                await eventually(lambda before=before: answered > before + 4)  # type: ignore[misc]
                await end(proxy)
            before = answered
            await eventually(lambda: answered > before + 8)
        finally:
            stop = True
            await asyncio.gather(*asking)
        homes = client.connections()[:3]
        assert [home.address for home in homes] == addresses


async def test_the_first_address_that_answers_is_asked(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy()
    addresses = f"127.0.0.1:{closed_port()},{proxy.address}"
    async with QueryableStateClient(addresses=addresses, timeout_s=DEADLINE_S) as client:
        assert (await client.get_kv_state("sensors", "last", "sensor_7")).value() == 7.0


def test_the_blocking_client_takes_several_addresses_too(tmp_path: Any) -> None:
    addresses = [f"127.0.0.1:{closed_port()}", f"127.0.0.1:{closed_port()}"]
    with (
        blocking.QueryableStateClient(addresses=addresses, timeout_s=DEADLINE_S) as client,
        pytest.raises(NothingListensError, match=rf"{addresses[0]} or {addresses[1]}"),
    ):
        client.list_jobs()


async def test_nothing_listening_is_said_at_once() -> None:
    """By every kind of call, and not at the end of the caller's time."""
    async with QueryableStateClient("127.0.0.1", closed_port(), timeout_s=DEADLINE_S) as client:
        began = time.monotonic()
        calls = (
            client.get_kv_state("sensors", "last", "sensor_1"),
            client.list_jobs(),
            client.list_states(),
            client.describe_state("sensors", "last"),
            client.measure("sensors", "last"),
            client.scan("sensors", "last").next_page(),
        )
        for call in calls:
            with pytest.raises(NothingListensError, match=r"connection refused.*check host"):
                await call
        assert time.monotonic() - began < DEADLINE_S / 4


async def test_a_name_that_does_not_exist_is_said_at_once() -> None:
    async with QueryableStateClient("no-such-host.invalid", timeout_s=DEADLINE_S) as client:
        began = time.monotonic()
        with pytest.raises(RetryLaterError, match=r"no-such-host\.invalid"):
            await client.list_jobs()
        assert time.monotonic() - began < DEADLINE_S / 2


async def test_an_address_that_is_silent_may_answer_later() -> None:
    """A listener that accepts nothing: its process may be starting."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        async with QueryableStateClient("127.0.0.1", port, timeout_s=0.5) as client:
            with pytest.raises((QueryTimeoutError, RetryLaterError)) as raised:
                await client.list_jobs()
            assert not isinstance(raised.value, NothingListensError)


async def test_a_server_that_was_reached_is_waited_for(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """It is expected back, on its port."""
    proxy = await cluster.add_proxy()
    port = int(proxy.address.rpartition(":")[2])
    async with QueryableStateClient(
        "127.0.0.1", port, timeout_s=DEADLINE_S, direct=False
    ) as client:
        assert await client.list_jobs()
        await killed(proxy)
        pending = asyncio.ensure_future(client.get_kv_states("sensors", "last", KEYS))
        listed = asyncio.ensure_future(client.list_jobs())
        done, _ = await asyncio.wait((pending, listed), timeout=0.5)
        assert not done
        await cluster.add_proxy(ports=str(port))
        assert len(await pending) == 100
        assert await listed


async def test_another_port_of_the_application_is_said_at_once(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Of the coordinator, of Spark tasks, of frames, and of metrics."""
    proxy = await cluster.add_proxy()
    addresses = {
        cluster.coordinator.address: "an internal port, of the coordinator",
        cluster.servers[0].addresses.backend: "an internal port, of the coordinator",
        cluster.servers[0].addresses.metrics: "a web server listens at",
    }
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        stub = query_pb2_grpc.QueryableStateStub(channel)
        frames = (await stub.DescribeServer(query_pb2.DescribeServerRequest())).frames.port
    if frames:
        addresses[f"127.0.0.1:{frames}"] = f"is the frame port .* 127.0.0.1:{frames - 1}"
    began = time.monotonic()
    for address, text in addresses.items():
        async with QueryableStateClient(addresses=address, timeout_s=DEADLINE_S) as client:
            for call in (client.list_jobs(), client.get_kv_state("sensors", "last", "sensor_1")):
                with pytest.raises(InvalidRequestError, match=text):
                    await call
    assert time.monotonic() - began < DEADLINE_S / 2


@pytest.mark.parametrize(
    ("arguments", "mend"),
    [
        ({"host": "localhost:9069"}, r"has a port: give the host alone \('localhost'\)"),
        ({"host": "http://localhost"}, r"a URL of http: leave out the scheme"),
        (
            {"host": "https://proxy:9069/x"},
            r"leave out the scheme .*, as in 'proxy:9069'",
        ),
        ({"host": ""}, "host must be the name or address"),
        ({"host": None}, "or give addresses"),
        ({"host": "localhost", "port": 0}, "from 1 to 65535"),
        ({"host": "localhost", "port": 70_000}, "from 1 to 65535"),
        ({"host": "localhost", "port": None}, "from 1 to 65535"),
        ({"addresses": []}, "names no address"),
        ({"addresses": ["a", 1]}, "must be texts"),
        ({"addresses": "a:0"}, "from 1 to 65535"),
        ({"addresses": ["a", "http://b"]}, "leave out the scheme"),
        ({"host": "a", "addresses": ["b"]}, "not both"),
    ],
)
def test_a_mistaken_address_is_refused_with_the_mend(arguments: dict[str, Any], mend: str) -> None:
    for kind in (QueryableStateClient, blocking.QueryableStateClient):
        with pytest.raises(InvalidRequestError, match=mend):
            kind(**arguments)
