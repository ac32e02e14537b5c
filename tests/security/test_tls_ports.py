"""TLS on every port of an application, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from tests.security.relay import Relay

from queryable_state.client import (
    AuthenticationError,
    InvalidRequestError,
    QueryableStateClient,
    QueryableStateError,
    Tls,
)
from queryable_state.server.coordinator_client import CoordinatorClient
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.security.connector import Connector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.security.authority import Authority

LIST = query_pb2.ListJobsRequest()
SECRET = "a-secret-that-must-not-travel"


@contextlib.asynccontextmanager
async def running(folder: Path, tls: TlsSettings, **settings: Any) -> AsyncIterator[Any]:
    """Two state servers with one batch of a job; yields the cluster."""
    async with InProcessCluster(folder / "cluster", servers=2, tls=tls, **settings) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {f"sensor_{number}": float(number) for number in range(50)}})
        yield cluster


def client_of(address: str, tls: Tls | bool, **options: Any) -> QueryableStateClient:
    host, port = host_and_port(address)
    return QueryableStateClient(host, port, tls=tls, **{"timeout_s": 20.0} | options)


async def read_all(address: str, tls: Tls | bool, **options: Any) -> set[str]:
    """Reads every key and scans the state; returns the transports that were used."""
    async with client_of(address, tls, **options) as client:
        keys = [f"sensor_{number}" for number in range(50)]
        assert [(await client.get_kv_state("sensors", "last", key)).value() for key in keys] == [
            float(number) for number in range(50)
        ]
        states = [state async for state in client.scan("sensors", "last")]
        assert len(states) == 50
        return {each.transport for each in client.connections()}


@pytest.mark.parametrize("plain_grpc", [False, True])
@pytest.mark.parametrize(("frame_ports", "transport"), [("0", "frames"), ("", "unary")])
@pytest.mark.parametrize("mutual", [False, True])
async def test_every_port_speaks_tls(
    tmp_path: Path,
    authority: Authority,
    plain_grpc: bool,
    frame_ports: str,
    transport: str,
    mutual: bool,
) -> None:
    """Tasks, coordinator and servers, and clients of the owners and of a proxy of its own."""
    tls = authority.settings(mutual=mutual)
    settings = {"plain_grpc": plain_grpc, "frame_ports": frame_ports}
    async with running(tmp_path, tls, **settings) as cluster:
        proxy = await cluster.add_proxy()
        client = authority.client(own=mutual)
        assert await read_all(proxy.address, client, direct=False) == {transport}
        assert transport in await read_all(cluster.servers[0].addresses.proxy, client)


@pytest.mark.parametrize("frame_ports", ["0", ""])
async def test_a_clear_text_client_is_told_at_once(
    tmp_path: Path, authority: Authority, frame_ports: str
) -> None:
    async with running(tmp_path, authority.settings(), frame_ports=frame_ports) as cluster:
        begun = time.monotonic()
        with pytest.raises(InvalidRequestError, match=r"expects TLS.*--tls"):
            await read_all(cluster.servers[0].addresses.proxy, False)
        assert time.monotonic() - begun < 5


async def test_a_tls_client_is_told_at_once_that_a_port_has_none(
    tmp_path: Path, authority: Authority
) -> None:
    async with running(tmp_path, TlsSettings()) as cluster:
        begun = time.monotonic()
        with pytest.raises(InvalidRequestError, match=r"does not speak TLS.*connect without"):
            await read_all(cluster.servers[0].addresses.proxy, authority.client())
        assert time.monotonic() - begun < 5


async def test_off_is_off_with_a_certificate(tmp_path: Path, authority: Authority) -> None:
    async with running(tmp_path, replace(authority.settings(), tls="off")) as cluster:
        await read_all(cluster.servers[0].addresses.proxy, False)


async def refused(cluster: Any, tls: Tls, text: str) -> None:
    """Each kind of port refuses a connection with these words, and at once."""
    begun = time.monotonic()
    with pytest.raises(AuthenticationError, match=text):
        await read_all(cluster.servers[0].addresses.proxy, tls)
    connector = Connector(tls)
    coordinator = cluster.coordinator
    async with CoordinatorClient(
        coordinator.address, coordinator.secret, connector=connector
    ) as calls:
        with pytest.raises(AuthenticationError, match=text):
            await calls.list_jobs(LIST)
    assert time.monotonic() - begun < 10


async def test_the_certificate_of_another_authority_is_refused(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    async with running(tmp_path, authority.settings()) as cluster:
        await refused(cluster, stranger.client(), r"not signed by an authority of .*tls_ca")


@pytest.mark.parametrize("frame_ports", ["0", ""])
async def test_a_client_asks_the_next_address_when_one_has_another_certificate(
    tmp_path: Path, authority: Authority, stranger: Authority, frame_ports: str
) -> None:
    async with (
        running(tmp_path / "other", stranger.settings(), frame_ports=frame_ports) as other,
        running(tmp_path / "ours", authority.settings(), frame_ports=frame_ports) as ours,
    ):
        addresses = [each.servers[0].addresses.proxy for each in (other, ours)]
        async with QueryableStateClient(addresses=addresses, tls=authority.client()) as client:
            assert [job.name for job in await client.list_jobs()] == ["sensors"]
            assert (await client.get_kv_state("sensors", "last", "sensor_7")).value() == 7.0


async def test_the_name_of_another_host_is_refused_and_the_names_are_said(
    tmp_path: Path, authority: Authority
) -> None:
    tls = authority.settings("state.example", server_name="state.example")
    async with running(tmp_path, tls) as cluster:
        client = authority.client()
        await refused(cluster, client, r"is for state\.example, not for 127.*server_name")
        await read_all(
            cluster.servers[0].addresses.proxy, replace(client, server_name="state.example")
        )


async def test_a_caller_without_a_certificate_is_refused(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    async with running(tmp_path, authority.settings(mutual=True)) as cluster:
        await refused(cluster, authority.client(), "requires a certificate of its callers")
        other = stranger.client(own=True)
        await refused(cluster, replace(other, ca=authority.ca), "does not accept the certificate")


async def test_a_task_port_takes_only_tls(tmp_path: Path, authority: Authority) -> None:
    async with running(tmp_path, authority.settings()) as cluster:
        address = cluster.servers[0].addresses.backend
        async with grpc.aio.insecure_channel(address) as channel:
            call: Any = channel.unary_unary("/x/Y")
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await call(b"", timeout=10)
        assert failure.value.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("secured", [False, True])
async def test_the_secret_is_never_on_the_wire(
    tmp_path: Path, authority: Authority, secured: bool
) -> None:
    """Also without TLS: calls are signed."""
    tls = authority.settings() if secured else TlsSettings()
    async with running(tmp_path, tls) as cluster:
        secret = cluster.coordinator.secret.encode()
        async with Relay(cluster.coordinator.address) as relay:
            proxy = await cluster.add_proxy(coordinators=(relay.address,))
            await read_all(proxy.address, authority.client() if secured else False, direct=False)
        assert len(relay.bytes) > 1000
        assert secret not in relay.bytes
        assert (b"Signed 1-1" in relay.bytes) != secured
        assert (b"sensors" in relay.bytes) != secured


@pytest.mark.parametrize("frame_ports", ["0", ""])
async def test_a_renewed_certificate_is_used_without_a_restart(
    tmp_path: Path, authority: Authority, stranger: Authority, frame_ports: str
) -> None:
    """Servers present it, and callers trust the authority that signed it."""
    tls = authority.settings(mutual=True)
    async with running(tmp_path, tls, frame_ports=frame_ports) as cluster:
        proxy = await cluster.add_proxy()
        old = authority.client(own=True)
        await read_all(proxy.address, old, direct=False)
        certificate, key = stranger.write()
        for source, target in (
            (stranger.ca, tls.tls_ca),
            (key, tls.tls_key),
            (certificate, tls.tls_certificate),
        ):
            _replace(source, target)
        new = stranger.client(own=True)
        await read_all(proxy.address, new, direct=False)
        await read_all(cluster.servers[0].addresses.proxy, new)
        with pytest.raises(QueryableStateError):
            await read_all(
                proxy.address, replace(new, ca=new.ca, certificate="", key=""), timeout_s=3
            )
        # Internal calls go on: a batch needs tasks, coordinator and servers.
        job = cluster.job("after", declare("more", "string", "double"))
        await job.run(0, {"more": {"a": 1.0}})


async def test_a_broken_renewal_keeps_the_old_certificate_and_says_so_once(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    tls = authority.settings()
    async with running(tmp_path, tls) as cluster:
        client = authority.client()
        caplog.clear()
        _write(tls.tls_certificate, "not a certificate")
        for _ in range(3):
            await read_all(cluster.servers[0].addresses.proxy, client)
        said = [each for each in caplog.messages if "old ones stay in use" in each]
        # Coordinator and two servers read the files each for themselves.
        assert 1 <= len(said) <= 3
        assert "has no certificate in PEM" in said[0]
        authority.write()
        await read_all(cluster.servers[0].addresses.proxy, client)


def _replace(source: str, target: str) -> None:
    from pathlib import Path

    _write(target, Path(source).read_text())


def _write(target: str, text: str) -> None:
    from pathlib import Path

    new = Path(target).with_suffix(".new")
    new.write_text(text)
    new.replace(target)


async def test_an_open_client_survives_the_renewal_of_its_authority(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    """The new connections of one client use its new files."""
    tls = authority.settings()
    async with running(tmp_path, tls) as cluster:
        address = cluster.servers[0].addresses.proxy
        async with client_of(address, authority.client(), direct=False) as client:
            assert (await client.get_kv_state("sensors", "last", "sensor_1")).value() == 1.0
            certificate, key = stranger.write()
            _replace(stranger.ca, tls.tls_ca)
            _replace(key, tls.tls_key)
            _replace(certificate, tls.tls_certificate)
            await asyncio.sleep(1.1)  # The client looks at its files once a second.
            async with client_of(address, stranger.client()) as other:
                assert (await other.get_kv_state("sensors", "last", "sensor_1")).value() == 1.0
            assert len(await client.list_states("sensors")) == 1
            assert (await client.get_kv_state("sensors", "last", "sensor_2")).value() == 2.0


async def test_the_expected_name_replaces_the_host(tmp_path: Path, authority: Authority) -> None:
    async with running(tmp_path, authority.settings()) as cluster:
        address = cluster.servers[0].addresses.proxy
        await read_all(address, replace(authority.client(), server_name="localhost"))
        with pytest.raises(AuthenticationError, match="not for elsewhere"):
            await read_all(address, replace(authority.client(), server_name="elsewhere"))
