"""Tokens, grants and origins of the web port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.waiting import DEADLINE_S

from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer

VALUE = "/api/v1/jobs/sensors/states/last/value?key=sensor_7"
SCAN = "/api/v1/jobs/sensors/states/last/scan"
WATCH = "/api/v1/jobs/sensors/states/last/watch"
SAVEPOINTS = "/api/v1/jobs/sensors/savepoints"

RULES = """
[tokens]
reader = "{reader}"
nobody = "{nobody}"
operator = "{operator}"

[[grants]]
callers = ["reader"]
jobs = ["*"]
states = ["last"]
kinds = ["read"]

[[grants]]
callers = ["operator"]
jobs = ["*"]
states = ["*"]
kinds = ["admin"]
"""


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """The web port of a cluster with an access file."""
    names = ("reader", "nobody", "operator")
    file = tmp_path / "access.toml"
    file.write_text(RULES.format(**{name: digest_of(f"token-of-{name}") for name in names}))
    file.chmod(0o600)
    access = AccessSettings(access_file=str(file))
    async with InProcessCluster(tmp_path, access=access) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        await job.run(0, {"last": {"sensor_7": 7.0}})
        proxy = await cluster.add_proxy(web="on")
        async with aiohttp.ClientSession(proxy.web_address) as http:
            yield http


def bearer(name: str) -> dict[str, str]:
    """The header of a caller."""
    return {"Authorization": f"Bearer token-of-{name}"}


async def test_callers_may_do_what_their_grants_say(
    guarded: aiohttp.ClientSession, tmp_path: Path
) -> None:
    for path, name, status, reason in (
        (VALUE, None, 401, "UNAUTHENTICATED"),
        (VALUE, "guessed", 401, "UNAUTHENTICATED"),
        (VALUE, "nobody", 403, "PERMISSION_DENIED"),
        (VALUE, "reader", 200, None),
        (SCAN, "reader", 403, "PERMISSION_DENIED"),
        (WATCH, None, 401, "UNAUTHENTICATED"),
        (f"{WATCH}?key=sensor_7", "reader", 200, None),
        (f"{WATCH}?prefix=sensor", "reader", 403, "PERMISSION_DENIED"),
        (WATCH, "reader", 403, "PERMISSION_DENIED"),
        ("/api/v1/jobs/no/states/last/value?key=a", "nobody", 403, "PERMISSION_DENIED"),
        ("/health", None, 200, None),
        ("/metrics", None, 401, "UNAUTHENTICATED"),
        ("/metrics", "reader", 403, "PERMISSION_DENIED"),
        ("/metrics", "operator", 200, None),
        ("/api/v1/openapi.json", None, 200, None),
    ):
        headers = {} if name is None else bearer(name)
        async with guarded.get(path, headers=headers) as answer:
            assert answer.status == status, (path, name, await answer.text())
            if status == 401:
                assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            if reason is not None:
                assert (await answer.json())["error"]["reason"] == reason
    # Tokens in URLs would stand in logs.
    async with guarded.get(f"{VALUE}&token=token-of-reader") as answer:
        assert answer.status == 400
    body = {"directory": str(tmp_path / "savepoints")}
    for name, status in (("reader", 403), ("operator", 200)):
        async with guarded.post(SAVEPOINTS, json=body, headers=bearer(name)) as answer:
            assert answer.status == status, await answer.text()
    written = list((tmp_path / "savepoints").iterdir())
    assert len(written) == 1


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/metrics"])
@pytest.mark.parametrize("scheme", [b"Bearer", b"Signed"])
async def test_a_token_that_is_no_text_is_refused_as_an_unknown_one(
    guarded: aiohttp.ClientSession, path: str, scheme: bytes
) -> None:
    async with guarded.get(path) as answer:
        url = answer.url
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
        + b"Authorization: "
        + scheme
        + b" \xff\xfe\r\n\r\n"
    )
    async with asyncio.timeout(DEADLINE_S):
        answered = await reader.read()
    writer.close()
    assert answered.startswith(b"HTTP/1.1 401"), answered


async def test_jobs_are_listed_as_far_as_a_caller_may_see_them(
    guarded: aiohttp.ClientSession,
) -> None:
    for name, jobs in (("reader", 1), ("nobody", 0)):
        async with guarded.get("/api/v1/jobs", headers=bearer(name)) as answer:
            assert len((await answer.json())["jobs"]) == jobs


async def test_other_names_of_the_machine_are_refused(http: aiohttp.ClientSession) -> None:
    """DNS rebinding: a site whose name leads to the loopback address."""
    for host, status in (
        ("attacker.example", 403),
        ("attacker.example:8081", 403),
        ("", 403),
        ("localhost.attacker.example", 403),
        ("localhost:8081", 200),
        ("127.0.0.1", 200),
        ("[::1]:8081", 200),
        ("LocalHost:8081", 200),
    ):
        async with http.get("/api/v1/jobs", headers={"Host": host}) as answer:
            assert answer.status == status, host


async def test_pages_of_other_origins_are_refused_unless_allowed(
    cluster: InProcessCluster, proxy: ProxyServer, http: aiohttp.ClientSession
) -> None:
    own = proxy.web_address
    other = "https://dashboards.example"
    for origin, status in ((other, 403), ("null", 403), (own, 200)):
        async with http.get("/api/v1/jobs", headers={"Origin": origin}) as answer:
            assert answer.status == status, origin
            assert "Access-Control-Allow-Origin" not in answer.headers
    allowing = await cluster.add_proxy(web="on", web_allowed_origins=other)
    preflight = {"Origin": other, "Access-Control-Request-Method": "POST"}
    async with aiohttp.ClientSession(allowing.web_address) as session:
        async with session.options("/api/v1/jobs", headers=preflight) as answer:
            assert answer.status == 204
            allowed = answer.headers["Access-Control-Allow-Headers"].split(", ")
            assert allowed == ["Authorization", "Content-Type", "Last-Event-ID"]
        async with session.get("/api/v1/jobs", headers={"Origin": other}) as answer:
            assert answer.status == 200
            assert answer.headers["Access-Control-Allow-Origin"] == other
        async with session.get("/api/v1/jobs", headers={"Origin": "https://a.example"}) as answer:
            assert answer.status == 403


async def test_answers_tell_browsers_what_they_may_do(http: aiohttp.ClientSession) -> None:
    for path in ("/api/v1/jobs", "/health", "/api/v1/nothing"):
        async with http.get(path) as answer:
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert "aiohttp" not in answer.headers["Server"]


async def test_a_body_has_to_be_declared_as_json(http: aiohttp.ClientSession) -> None:
    """A page of another site may send other types without asking first."""
    path = "/api/v1/jobs/sensors/states/last/values"
    for headers in ({"Content-Type": "text/plain"}, {}):
        async with http.post(path, data=b'{"keys": ["a"]}', headers=headers) as answer:
            assert answer.status == 415
