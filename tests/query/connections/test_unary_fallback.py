"""Look-ups as unary calls while the frame port is not reached, and as frames once it is."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.query.forwarding import ELSEWHERE, forwarded, port_of, warnings_of_frame_ports
from tests.query.proxy.under_way import Asking
from tests.query.streams import frame_port_of
from tests.waiting import eventually

from queryable_state.client import Consistency
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessJob

KEYS = [f"sensor_{number}" for number in range(100)]


def asking_for_all(client: QueryableStateClient) -> Asking:
    async def ask() -> None:
        states = await client.get_kv_states("sensors", "last", KEYS)
        assert [state and state.value() for state in states] == list(range(100))

    return Asking(ask)


async def test_a_client_moves_to_the_frame_port_once_it_is_reached(
    proxy: ProxyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """No call fails meanwhile, and one warning says what to open."""
    caplog.set_level(logging.INFO)
    frame_port = await frame_port_of(proxy.address)
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(forwarded(ELSEWHERE, 0, port_of(proxy.address)))
        client = await stack.enter_async_context(client_of(address, direct=False))
        asking = await stack.enter_async_context(asking_for_all(client).under_way())
        await asking.more()
        [connection] = client.connections()
        assert (connection.server_id, connection.transport) == (proxy.server_id, "unary")
        assert f"{ELSEWHERE}:{frame_port}" in connection.frame_problem
        assert "its frame port" in str(await client.explain("sensors", "last", "sensor_1"))
        [warning] = warnings_of_frame_ports(caplog)
        assert address in warning
        assert f"Let TCP connections through to {ELSEWHERE}:{frame_port}" in warning

        await stack.enter_async_context(forwarded(ELSEWHERE, frame_port, frame_port))
        await eventually(lambda: client.connections()[0].transport == "frames")
        await asking.more()
        assert client.connections()[0].frame_problem == ""
        assert len(warnings_of_frame_ports(caplog)) == 1
        assert f"go over its frame port {ELSEWHERE}:{frame_port} now" in caplog.text


async def test_a_frame_port_that_is_lost_and_comes_back_fails_no_call(
    proxy: ProxyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    frame_port = await frame_port_of(proxy.address)
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(forwarded(ELSEWHERE, 0, port_of(proxy.address)))
        client = await stack.enter_async_context(client_of(address, direct=False))
        frames = await stack.enter_async_context(contextlib.AsyncExitStack())
        await frames.enter_async_context(forwarded(ELSEWHERE, frame_port, frame_port))
        asking = await stack.enter_async_context(asking_for_all(client).under_way())
        await asking.more()
        assert client.connections()[0].transport == "frames"
        assert warnings_of_frame_ports(caplog) == []

        await frames.aclose()
        await eventually(lambda: client.connections()[0].transport == "unary")
        await asking.more()
        assert len(warnings_of_frame_ports(caplog)) == 1

        await stack.enter_async_context(forwarded(ELSEWHERE, frame_port, frame_port))
        await eventually(lambda: client.connections()[0].transport == "frames")
        await asking.more()


async def test_a_call_that_breaks_after_the_move_is_retried_over_frames(
    proxy: ProxyServer, job: InProcessJob
) -> None:
    """It waited for a commit when the frame port was reached and the gRPC port was lost."""
    frame_port = await frame_port_of(proxy.address)
    async with contextlib.AsyncExitStack() as stack:
        grpc_port = await stack.enter_async_context(contextlib.AsyncExitStack())
        address = await grpc_port.enter_async_context(
            forwarded(ELSEWHERE, 0, port_of(proxy.address))
        )
        client = await stack.enter_async_context(client_of(address, direct=False))
        await client.get_kv_state("sensors", "last", "sensor_1")
        assert client.connections()[0].transport == "unary"
        waiting = client.get_kv_state(
            "sensors", "last", "sensor_1", consistency=Consistency.at_least(1)
        )
        await stack.enter_async_context(forwarded(ELSEWHERE, frame_port, frame_port))
        await eventually(lambda: client.connections()[0].transport == "frames")
        assert not waiting.done()
        await grpc_port.aclose()
        await job.run(1, {"last": {"sensor_1": -1.0}})
        assert (await waiting).value() == -1.0
        assert client.connections()[0].transport == "frames"


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
        assert "its frame port" in asked.detail

        frame_port = await frame_port_of(owner.addresses.query)
        await stack.enter_async_context(forwarded(ELSEWHERE, frame_port, frame_port))
        await eventually(lambda: f"its frame port {ELSEWHERE}:{frame_port} now" in caplog.text)
        assert len(await client.get_kv_states("sensors", "last", KEYS)) == 100
        explained = await client.explain("sensors", "last", "sensor_1")
        assert "unary" not in str(explained)


@pytest.mark.parametrize("frame_ports", [""], ids=["unary"])
async def test_a_server_without_a_frame_port_is_warned_of_by_nobody(
    cluster: InProcessCluster, proxy: ProxyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Its operator wants unary calls; the connection says so."""
    async with client_of(proxy.address, direct=False) as client:
        await client.get_kv_state("sensors", "last", "sensor_1")
        [connection] = client.connections()
        assert connection.transport == "unary"
        assert "the server has no frame port" in connection.frame_problem
    assert warnings_of_frame_ports(caplog) == []
