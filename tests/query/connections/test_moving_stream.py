"""Look-ups over gRPC while the frame port is not reached, and over frames once it is."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

import grpc.aio
from tests.client.asking import client_of, until
from tests.query.forwarding import ELSEWHERE, forwarded
from tests.query.proxy.under_way import Asking
from tests.query.streams import RawStream

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from queryable_state.server.query.proxy.proxy_server import ProxyServer

KEYS = [f"sensor_{number}" for number in range(100)]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def frame_port_of(address: str) -> int:
    async with grpc.aio.insecure_channel(address) as channel:
        return (await RawStream(channel).greet()).frame_port


def warnings_of_frame_ports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.message
        for record in caplog.records
        if record.levelno == logging.WARNING and "its frame port" in record.message
    ]


async def test_a_client_moves_to_the_frame_port_once_it_is_reached(
    proxy: ProxyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """No call fails meanwhile, and one warning says what to open."""
    caplog.set_level(logging.INFO)
    frame_port = await frame_port_of(proxy.address)
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(forwarded(ELSEWHERE, 0, port_of(proxy.address)))
        client = await stack.enter_async_context(client_of(address, direct=False))

        async def ask() -> None:
            states = await client.get_kv_states("sensors", "last", KEYS)
            assert [state and state.value() for state in states] == list(range(100))

        asking = await stack.enter_async_context(Asking(ask).under_way())
        await asking.more()
        [connection] = client.connections()
        assert (connection.server_id, connection.transport) == (proxy.server_id, "grpc")
        assert f"{ELSEWHERE}:{frame_port}" in connection.frame_problem
        assert "its frame port" in str(await client.explain("sensors", "last", "sensor_1"))
        [warning] = warnings_of_frame_ports(caplog)
        assert address in warning
        assert f"Let TCP connections through to {ELSEWHERE}:{frame_port}" in warning

        await stack.enter_async_context(forwarded(ELSEWHERE, frame_port, frame_port))
        await until(lambda: client.connections()[0].transport == "frames")
        await asking.more()
        assert client.connections()[0].frame_problem == ""
        assert len(warnings_of_frame_ports(caplog)) == 1
        assert f"go over its frame port {ELSEWHERE}:{frame_port} now" in caplog.text


async def test_a_proxy_moves_to_the_frame_port_of_an_owner_once_it_is_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            InProcessCluster(tmp_path, servers=1, advertised_host=ELSEWHERE)
        )
        [owner] = cluster.servers
        for address in (owner.addresses.query, owner.addresses.backend):
            port = port_of(address)
            await stack.enter_async_context(forwarded(ELSEWHERE, port, port))
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {key: float(number) for number, key in enumerate(KEYS)}})
        await job.run(1, {"last": {}})
        proxy = await cluster.add_proxy()
        client = await stack.enter_async_context(client_of(proxy.address, direct=False))
        assert len(await client.get_kv_states("sensors", "last", KEYS)) == 100
        [warning] = warnings_of_frame_ports(caplog)
        assert owner.addresses.query in warning
        explained = await client.explain("sensors", "last", "sensor_1")
        [asked] = [step for step in explained.steps if step.name == "ask owner"]
        assert "over gRPC: its frame port" in asked.detail

        frame_port = await frame_port_of(owner.addresses.query)
        await stack.enter_async_context(forwarded(ELSEWHERE, frame_port, frame_port))
        await until(lambda: f"its frame port {ELSEWHERE}:{frame_port} now" in caplog.text)
        assert len(await client.get_kv_states("sensors", "last", KEYS)) == 100
        explained = await client.explain("sensors", "last", "sensor_1")
        assert "over gRPC" not in str(explained)


async def test_a_server_without_a_frame_port_is_warned_of_by_nobody(
    cluster: InProcessCluster, job: object, caplog: pytest.LogCaptureFixture
) -> None:
    """gRPC is what its operator wants."""
    proxy = await cluster.add_proxy(frame_ports="")
    async with client_of(proxy.address, direct=False) as client:
        await client.get_kv_state("sensors", "last", "sensor_1")
        [connection] = client.connections()
        assert (connection.transport, connection.frame_problem) == ("grpc", "")
    assert warnings_of_frame_ports(caplog) == []
