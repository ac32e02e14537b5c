"""The web process of a driver, as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import psutil
import pytest
from tests.waiting import DEADLINE_S

from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.server.web.web_process import WebProcess
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.testing.cluster import InProcessCluster

pytestmark = pytest.mark.slow


def settings(cluster: InProcessCluster, **others: Any) -> ProxySettings:
    """Settings of a process that finds the cluster."""
    fields: dict[str, Any] = {
        "coordinators": (cluster.coordinator.address,),
        "secret": cluster.coordinator.secret,
        "ports": "0",
        "frame_ports": "",
        "web_ports": "0",
        "lame_duck_s": 0.0,
    }
    return ProxySettings(**(fields | others))


@pytest.fixture
def web(cluster: InProcessCluster) -> Iterator[WebProcess]:
    """A web process of this test's cluster."""
    process = WebProcess(settings(cluster))
    yield process
    process.close()


def child() -> psutil.Process | None:
    """The web process, if it lives."""
    for each in psutil.Process().children():
        if each.is_running() and "queryable_state.server.web" in each.cmdline():
            return each
    return None


async def test_it_answers_and_starts_again_after_a_kill(web: WebProcess) -> None:
    async with aiohttp.ClientSession() as http:
        for _ in range(2):
            address = await asyncio.to_thread(web.address, DEADLINE_S)
            async with http.get(f"{address}/api/v1/jobs") as answer:
                jobs = (await answer.json())["jobs"]
            assert [job["name"] for job in jobs] == ["sensors"]
            process = child()
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
            deadline = time.monotonic() + DEADLINE_S
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            # The address is that of the next process once the end of this one was seen.
            while web.has_address:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)


async def test_it_ends_with_its_owner(cluster: InProcessCluster) -> None:
    web = WebProcess(settings(cluster))
    await asyncio.to_thread(web.address, DEADLINE_S)
    assert child() is not None
    await asyncio.to_thread(web.close)
    assert child() is None


async def test_wrong_settings_are_said_and_not_tried_again(cluster: InProcessCluster) -> None:
    web = WebProcess(settings(cluster, host="0.0.0.0"))
    try:
        with pytest.raises(InvalidRequestError, match="which other machines reach"):
            await asyncio.to_thread(web.address, DEADLINE_S)
        assert child() is None
    finally:
        await asyncio.to_thread(web.close)
