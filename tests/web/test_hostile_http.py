"""Clients of the web port that are slow, greedy or malformed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.server.config.limits import Limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster

CONNECTIONS = 8
VALUES = "/api/v1/jobs/sensors/states/last/values"


@pytest.fixture
async def proxy(cluster: InProcessCluster) -> ProxyServer:
    """A proxy with small limits."""
    limits = Limits(connections=CONNECTIONS, read_timeout_s=0.5)
    return await cluster.add_proxy(web="on", limits=limits)


@asynccontextmanager
async def raw(
    proxy: ProxyServer,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A plain connection to the web port."""
    host, _, port = proxy.web_address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What the server sends until it closes the connection."""
    async with asyncio.timeout(DEADLINE_S):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def test_a_header_that_never_ends_loses_its_connection(proxy: ProxyServer) -> None:
    """Slowloris, before the first request and after one."""
    async with raw(proxy) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        assert await ended(reader) == b""
    async with raw(proxy) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTT")
        assert (await ended(reader)).startswith(b"HTTP/1.1 200")
    async with raw(proxy) as (reader, _):
        assert await ended(reader) == b""


async def test_a_body_that_never_ends_is_given_up(proxy: ProxyServer) -> None:
    async with raw(proxy) as (reader, writer):
        writer.write(
            f"POST {VALUES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            'Content-Length: 100\r\n\r\n{"keys"'.encode()
        )
        assert (await ended(reader)).startswith(b"HTTP/1.1 408")


async def test_a_long_body_is_refused_before_it_is_read(
    proxy: ProxyServer, http: aiohttp.ClientSession
) -> None:
    async with raw(proxy) as (reader, writer):
        writer.write(
            f"POST {VALUES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 1000000000000\r\n\r\n".encode()
        )
        assert (await ended(reader)).startswith(b"HTTP/1.1 413")

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 65536

    json = {"Content-Type": "application/json"}
    async with raw(proxy) as (reader, writer):
        writer.write(
            f"POST {VALUES} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        # The server may close before it has read all of it.
        try:
            async for chunk in endless():
                writer.write(b"10000\r\n" + chunk + b"\r\n")
                await writer.drain()
        except ConnectionError:
            pass
    too_many = b'{"keys": [' + b",".join([b"1"] * 5000) + b"]}"
    async with http.post(VALUES, data=too_many, headers=json) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"]["reason"] == "LIMIT_EXCEEDED"


async def test_more_connections_than_allowed_are_closed_and_others_answered(
    proxy: ProxyServer, http: aiohttp.ClientSession
) -> None:
    async with http.get("/health") as answer:
        assert answer.status == 200
    async with asyncio.timeout(DEADLINE_S):
        opened = []
        for _ in range(2 * CONNECTIONS):
            context = raw(proxy)
            opened.append((context, await context.__aenter__()))
        # The client's own connection is one of those that are kept.
        for context, (reader, _) in opened:
            await ended(reader)
            await context.__aexit__(None, None, None)
        async with http.get("/health") as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "request_text",
    [
        "GET /" + "a" * 20_000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + "a" * 20_000 + "\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\n" + "X: a\r\n" * 500 + "\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        ),
    ],
    ids=["line", "header", "headers", "tls", "smuggling"],
)
async def test_malformed_requests_get_one_answer_at_most(
    proxy: ProxyServer, http: aiohttp.ClientSession, request_text: str
) -> None:
    async with raw(proxy) as (reader, writer):
        writer.write(request_text.encode("latin-1"))
        answer = await ended(reader)
        assert not answer or (answer.startswith(b"HTTP/1.") and b" 400 " in answer[:20])
    async with http.get("/health") as fine:
        assert fine.status == 200


async def test_deep_json_is_refused(proxy: ProxyServer, http: aiohttp.ClientSession) -> None:
    json = {"Content-Type": "application/json"}
    for body in (b"[" * 100_000, b'{"keys": ' + b"[" * 900 + b"]" * 900 + b"}", b"\xff", b""):
        async with http.post(VALUES, data=body, headers=json) as answer:
            assert answer.status in (200, 400)
            if answer.status == 200:
                values = (await answer.json())["values"]
                assert all("error" in each for each in values)
