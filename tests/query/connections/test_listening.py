"""Addresses that servers listen on and those that they advertise, over real sockets."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import pytest
from tests.query.forwarding import ELSEWHERE, forwarded, free_ports, port_of
from tests.waiting import DEADLINE_S

from queryable_state.client import QueryableStateClient
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.serving.advertised import (
    Advertised,
    advertised_host,
    environment_host,
    machine_host,
)
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.addresses import host_and_port, is_loopback, is_wildcard
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path


needs_ipv6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")


async def stored(cluster: InProcessCluster) -> None:
    job = cluster.job("sensors", declare("last", "string", "double"))
    await job.run(0, {"last": {"sensor_1": 1.5, "sensor_2": 2.5}})
    await job.run(1, {"last": {}})


async def looked_up(host: str, port: int) -> str:
    """Looks both keys up at a server; returns the transport to it."""
    async with QueryableStateClient(host, port, timeout_s=DEADLINE_S) as client:
        states = await client.get_kv_states("sensors", "last", ["sensor_1", "sensor_2"])
        assert [state and state.value() for state in states] == [1.5, 2.5]
        return client.connections()[0].transport


@needs_ipv6
@pytest.mark.parametrize(("host", "asked"), [("::1", ["::1"]), ("::", ["::1", "127.0.0.1"])])
async def test_every_process_listens_on_ipv6(tmp_path: Path, host: str, asked: list[str]) -> None:
    async with InProcessCluster(
        tmp_path,
        servers=2,
        host=host,
        coordinator_host=host,
        access=AccessSettings(insecure=True),
    ) as cluster:
        await stored(cluster)
        proxy = await cluster.add_proxy(host=host)
        for address in (proxy.address, cluster.servers[0].addresses.query):
            for each in asked:
                assert await looked_up(each, port_of(address)) == "frames"
        for address in (cluster.coordinator.address, proxy.address):
            assert not is_wildcard(host_and_port(address)[0])


async def test_a_server_is_asked_at_its_advertised_host_alone(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            InProcessCluster(tmp_path, servers=1, advertised_host=ELSEWHERE)
        )
        [server] = cluster.servers
        for address in (server.addresses.query, server.addresses.proxy, server.addresses.backend):
            host, port = host_and_port(address)
            assert host == ELSEWHERE
            await stack.enter_async_context(forwarded(ELSEWHERE, port, port))
        await stored(cluster)
        assert await looked_up(ELSEWHERE, port_of(server.addresses.proxy))


async def test_a_proxy_behind_translated_ports_answers_over_frames(tmp_path: Path) -> None:
    """As published ports of a container: other numbers outside, for gRPC and for frames."""
    async with contextlib.AsyncExitStack() as stack:
        port, frame_port, inside, frames_inside = free_ports(4)
        cluster = await stack.enter_async_context(InProcessCluster(tmp_path))
        await stored(cluster)
        proxy = await cluster.add_proxy(
            ports=str(inside),
            frame_ports=str(frames_inside),
            advertised=f"{ELSEWHERE}:{port}",
            advertised_frame_port=frame_port,
        )
        assert proxy.address == f"{ELSEWHERE}:{port}"
        await stack.enter_async_context(forwarded(ELSEWHERE, port, inside))
        await stack.enter_async_context(forwarded(ELSEWHERE, frame_port, frames_inside))
        assert await looked_up(ELSEWHERE, port) == "frames"


def test_all_addresses_are_never_advertised() -> None:
    for wildcard in ("0.0.0.0", "::", "[::]"):
        assert advertised_host(wildcard) == machine_host()
        assert not is_wildcard(advertised_host(wildcard))
        with pytest.raises(InvalidRequestError, match=r"--advertise is .*nobody can connect"):
            Advertised.parse(wildcard, "--advertise")
    assert advertised_host("10.0.0.7") == "10.0.0.7"
    assert advertised_host("0.0.0.0", "proxy.example") == "proxy.example"


def test_the_environment_of_a_machine_gives_its_host() -> None:
    assert environment_host({}) == ""
    assert environment_host({"QUERYABLE_STATE_ADVERTISED_HOST": " 10.1.2.3 "}) == "10.1.2.3"
    assert environment_host({"QUERYABLE_STATE_ADVERTISED_HOST": "[fd00::7]"}) == "fd00::7"
    with pytest.raises(InvalidRequestError, match="QUERYABLE_STATE_ADVERTISED_HOST 'a:1' has a p"):
        environment_host({"QUERYABLE_STATE_ADVERTISED_HOST": "a:1"})


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("a.example", "a.example", 0),
        ("a:9", "a", 9),
        ("[::7]:9", "::7", 9),
        ("fd00::7", "fd00::7", 0),
    ],
)
def test_a_host_is_advertised_with_a_port_or_without(text: str, host: str, port: int) -> None:
    assert Advertised.parse(text, "--advertise") == Advertised(host=host, port=port)


def test_the_machine_has_a_name() -> None:
    assert machine_host()
    assert not is_wildcard(machine_host())
    assert not is_loopback("10.0.0.7")
