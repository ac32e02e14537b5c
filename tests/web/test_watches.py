"""Watches as server-sent events."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

DEADLINE_S = 20.0
WATCH = "/api/v1/jobs/watched/states/last/watch"


@pytest.fixture
async def job(cluster: InProcessCluster, proxy: ProxyServer) -> InProcessJob:
    """A job with one committed batch."""
    job = cluster.job("watched", declare("last", "string", "double"))
    await job.run(0, {"last": {"sensor_1": 1.0}})
    return job


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """Id and data of each event."""
    event_id = ""
    async for line in answer.content:
        name, _, text = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            event_id = text
        elif name == "data":
            yield event_id, json.loads(text)
            event_id = ""


async def test_each_change_comes_once_and_a_watch_resumes(
    http: aiohttp.ClientSession, job: InProcessJob
) -> None:
    async with asyncio.timeout(DEADLINE_S):
        async with http.get(WATCH, params={"key": "sensor_1"}) as answer:
            assert answer.status == 200
            assert answer.content_type == "text/event-stream"
            found = events(answer)
            await anext(found)
            await job.run(1, {"last": {"sensor_1": 2.0, "sensor_2": 3.0}})
            async for _, message in found:
                if message["changes"]:
                    break
            (change,) = message["changes"]
            assert (change["kind"], change["key"], change["value"], change["old_value"]) == (
                "PUT",
                "sensor_1",
                2.0,
                1.0,
            )
            assert message["batch"] == 1
        await job.run(2, {"last": {"sensor_1": 4.0}})
        async with http.get(WATCH, headers={"Last-Event-ID": "1"}) as answer:
            async for _, message in events(answer):
                if message["changes"]:
                    break
            assert (message["batch"], message["changes"][0]["value"]) == (2, 4.0)


async def test_refusals_come_as_statuses(http: aiohttp.ClientSession, job: InProcessJob) -> None:
    for query, status in (
        ({"key": "a", "prefix": "b"}, 400),
        ({"after_batch": "soon"}, 400),
    ):
        async with http.get(WATCH, params=query) as answer:
            assert answer.status == status
            assert answer.content_type == "application/json"
    async with http.get("/api/v1/jobs/watched/states/no/watch") as answer:
        assert answer.status == 404
