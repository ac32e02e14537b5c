"""The command `queryable-state health`, as probes of containers run it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc.aio
import pytest
from tests.query.proxy.watching import NOT_SERVING, SERVING, Watched
from tests.security.authority import Authority

from queryable_state.cli import main
from queryable_state.server.testing.cluster import InProcessCluster

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_proxy_without_its_driver_is_not_ready_but_alive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with InProcessCluster(tmp_path, servers=1) as cluster:
        proxy = await cluster.add_proxy()
        async with grpc.aio.insecure_channel(proxy.address) as channel:
            watched = Watched(channel)
            await watched.until(SERVING)
            assert await asyncio.to_thread(main, ["health", proxy.address]) == 0
            assert capsys.readouterr().out == f"{proxy.address}: SERVING\n"
            await asyncio.to_thread(cluster.coordinator.coordinator.close)
            await watched.until(NOT_SERVING)
        assert await asyncio.to_thread(main, ["health", proxy.address]) == 1
        assert capsys.readouterr().out == f"{proxy.address}: NOT_SERVING\n"
        assert await asyncio.to_thread(main, ["health", "--alive", proxy.address]) == 0


async def test_without_an_address_the_variables_of_the_proxy_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The check of the proxy's image: same environment as the proxy, no arguments."""
    tls = Authority(tmp_path / "ca").settings("proxy.example", server_name="proxy.example")
    async with InProcessCluster(tmp_path / "cluster", servers=1, tls=tls) as cluster:
        port = (await cluster.add_proxy()).address.rpartition(":")[2]
        for name, value in {
            "PROXY_PORTS": port,
            "HOST": "0.0.0.0",
            "TLS_CERTIFICATE": tls.tls_certificate,
            "TLS_KEY": tls.tls_key,
            "TLS_CA": tls.tls_ca,
        }.items():
            monkeypatch.setenv(f"QUERYABLE_STATE_{name}", value)
        assert await asyncio.to_thread(main, ["health", "--alive"]) == 1
        assert "proxy.example" in capsys.readouterr().err
        monkeypatch.setenv("QUERYABLE_STATE_TLS_SERVER_NAME", "proxy.example")
        assert await asyncio.to_thread(main, ["health", "--alive"]) == 0
        assert capsys.readouterr().out.startswith(f"localhost:{port}: ")


def test_a_server_that_does_not_answer_is_neither(capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--alive"]):
        assert main(["health", "127.0.0.1:1", "--timeout", "2", *options]) == 1
        assert "127.0.0.1:1: UNAVAILABLE" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-3", "nan", "inf"])
def test_a_timeout_that_is_not_above_0_is_refused(
    seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("health", "savepoint", "jobs"):
        assert main([command, f"--timeout={seconds}"]) == 2
        assert "use seconds above 0" in capsys.readouterr().err


def test_an_address_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for address, problem in (("http://proxy-1:9069", "URL of http"), ("proxy-1:x", "not a port")):
        assert main(["health", address]) == 2
        assert problem in capsys.readouterr().err
