"""Answers that their clients do not read count in the memory that clients may take."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.waiting import DEADLINE_S, eventually

from queryable_state.server.config.limits import Limits
from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster

HELD_BYTES = 1 << 20
# More than the sockets of both sides take of an answer that nobody reads.
LARGE = "x" * 3_900_000
STATE = "/api/v1/jobs/large/states/last"
VALUE = f"{STATE}/value?key=large"
WATCH = f"{STATE}/watch?key=large&after_batch=-1"


@pytest.fixture
async def proxy(cluster: InProcessCluster) -> ProxyServer:
    """A proxy that holds little for its clients, beside a job with a large value."""
    job = cluster.job("large", declare("last", "string", "string"))
    await job.run(0, {"last": {"large": LARGE, "small": "x"}})
    return await cluster.add_proxy(web="on", limits=Limits(held_bytes=HELD_BYTES))


@asynccontextmanager
async def unread(proxy: ProxyServer, path: str) -> AsyncIterator[None]:
    """A request whose answer is not read while the block lasts."""
    host, _, port = proxy.web_address.removeprefix("http://").partition(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, (host, int(port)))
        await loop.sock_sendall(client, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield


async def holds(http: aiohttp.ClientSession, size_bytes: int) -> bool:
    """True if the proxy holds so many bytes of answers, or more; 0: if it holds none."""
    async with http.get("/metrics") as answer:
        found = re.search(r'held_bytes\{kind="answers"\} (\S+)', await answer.text())
    assert found is not None
    held_bytes = float(found[1])
    return held_bytes >= size_bytes if size_bytes else not held_bytes


@pytest.mark.parametrize("path", [VALUE, WATCH], ids=["value", "watch"])
async def test_without_room_large_answers_are_refused_and_small_ones_sent(
    proxy: ProxyServer, http: aiohttp.ClientSession, path: str
) -> None:
    async with asyncio.timeout(DEADLINE_S):
        async with unread(proxy, path):
            await eventually(lambda: holds(http, HELD_BYTES))
            async with http.get(VALUE) as answer:
                assert answer.status == 429
                assert answer.headers["Retry-After"] == "1"
                assert (await answer.json())["error"]["reason"] == "OVERLOADED"
            async with http.get(WATCH) as answer:
                events = (await answer.text()).split("\n\n")
                name, data = events[-2].split("\n")
                assert name == "event: error"
                error = json.loads(data.removeprefix("data: "))["error"]
                assert error["reason"] == "OVERLOADED"
                assert error["retry_after_ms"] > 0
            async with http.get(f"{STATE}/value?key=small") as answer:
                assert answer.status == 200
        await eventually(lambda: holds(http, 0))
        async with http.get(VALUE) as answer:
            assert (await answer.json())["value"] == LARGE
