"""The web applications of examples/web, over HTTP, with a job whose servers come and go."""

from __future__ import annotations

import asyncio
import importlib
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import uvicorn
from aiohttp import web
from tests.waiting import DEADLINE_S

from queryable_state.client import ClientClosedError
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.query.proxy.proxy_server import ProxyServer

_EXAMPLES = Path(__file__).parents[2] / "examples" / "web"

STATES = {f"sensor_{number}": float(number) for number in range(20)}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Site:
    """A web application of one kind, and the proxy that it asks."""

    def __init__(self, cluster: InProcessCluster, http: aiohttp.ClientSession, port: int) -> None:
        self.cluster = cluster
        self._http = http
        self._port = port
        self.proxy: ProxyServer | None = None

    async def start_proxy(self) -> None:
        self.proxy = await self.cluster.add_proxy(ports=str(self._port))

    async def get(self, path: str) -> tuple[int, dict[str, Any], dict[str, str]]:
        """The status, body and headers of an answer."""
        async with self._http.get(path) as answer:
            return answer.status, await answer.json(), dict(answer.headers)

    async def until(self, path: str, status: int) -> dict[str, Any]:
        """Asks until the answer has this status; returns its body."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found, body, _ = await self.get(path)
                if found == status:
                    return body


@asynccontextmanager
async def running(kind: str, port: int) -> AsyncIterator[None]:
    module = importlib.import_module(f"{kind}_app")
    if kind == "aiohttp":
        runner = web.AppRunner(module.application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield
        await runner.cleanup()
        return
    server = uvicorn.Server(uvicorn.Config(module.app, port=port, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells by this field alone
        await asyncio.sleep(0.01)
    yield
    server.should_exit = True
    await serving


@pytest.fixture(params=["fastapi", "aiohttp"])
async def site(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    """An application that started before its job, of which nothing answers yet."""
    monkeypatch.syspath_prepend(_EXAMPLES)
    proxy_port, http_port = free_port(), free_port()
    monkeypatch.setenv("QUERYABLE_STATE_SERVER", f"127.0.0.1:{proxy_port}")
    async with (
        InProcessCluster(tmp_path, servers=2) as cluster,
        running(request.param, http_port),
        aiohttp.ClientSession(f"http://127.0.0.1:{http_port}") as http,
    ):
        yield Site(cluster, http, proxy_port)


async def test_answers_over_the_life_of_a_job(site: Site) -> None:
    """Nothing answers, the job starts, a server goes and comes back: the application goes on."""
    for path in ("/health", "/values/sensor_1", "/values?key=sensor_1&key=sensor_2"):
        status, body, headers = await site.get(path)
        assert (status, headers["Retry-After"]) == (503, "2"), body
        assert body["error"] in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}

    await site.start_proxy()
    job = site.cluster.job(
        "temperature", declare("lastTemperature", "string", "double"), durable=True
    )
    await job.run(0, {"lastTemperature": STATES})
    assert await site.until("/health", 200) == {"status": "ok"}
    body = await site.until("/values/sensor_1", 200)
    assert (body["value"], body["batch"], body["stale"]) == (1.0, 0, False)
    assert 0 <= body["age_s"] < DEADLINE_S
    status, body, _ = await site.get("/values?key=sensor_1&key=nobody&key=sensor_2")
    assert status == 200
    assert [(each["key"], each["value"]) for each in body["values"]] == [
        ("sensor_1", 1.0),
        ("sensor_2", 2.0),
    ]
    assert (body["missing"], body["failed"], body["complete"]) == (["nobody"], {}, True)
    assert (await site.get("/values/nobody"))[0] == 404
    assert (await site.get("/values/sensor_1?max_age_s=600"))[0] == 200

    # Nothing answers any more: no old value, and no answer without one.
    assert site.proxy is not None
    await site.proxy.aclose()
    for server in tuple(site.cluster.servers):
        await site.cluster.stop_server(server)
    for path in ("/values/sensor_1", "/values?key=sensor_1"):
        status, _, headers = await site.get(path)
        assert (status, "Retry-After" in headers) == (503, True)

    # The servers are back, at other ports behind the same proxy address.
    await site.cluster.add_server()
    await site.start_proxy()
    await job.run(1, {"lastTemperature": STATES | {"sensor_1": 71.5}})
    body = await site.until("/values/sensor_1", 200)
    assert (body["value"], body["batch"]) == (71.5, 1)


async def test_an_old_answer_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """`stale` is for a page that shows the value with its age; `max_age_s` refuses it."""
    await site.start_proxy()
    job = site.cluster.job(
        "temperature", declare("lastTemperature", "string", "double"), durable=True
    )
    await job.run(0, {"lastTemperature": STATES})
    committed = (await site.until("/values/sensor_1", 200))["age_s"]
    answers = importlib.import_module("answers")
    clock = answers.time.time
    monkeypatch.setattr(answers.time, "time", lambda: clock() + 60)
    body = await site.until("/values/sensor_1", 200)
    assert body["stale"]
    assert body["age_s"] >= committed + 60
    monkeypatch.undo()
    status, _, headers = await site.get("/values/sensor_1?max_age_s=0.001")
    assert (status, "Retry-After" in headers) == (503, True)


def test_a_request_at_shut_down_is_not_blamed_on_the_visitor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(_EXAMPLES)
    answers = importlib.import_module("answers")
    status, _, headers = answers.error_answer(ClientClosedError("the client is closed"))
    assert (status, headers) == (503, {"Retry-After": "2"})
