"""Watches as server-sent events."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

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


async def next_changes(found: AsyncIterator[tuple[str, Any]]) -> tuple[str, Any]:
    """Id and data of the next event with changes."""
    while True:
        event_id, message = await anext(found)
        if message["changes"]:
            return event_id, message


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
            event_id, message = await next_changes(found)
            (change,) = message["changes"]
            assert (change["kind"], change["key"], change["value"], change["old_value"]) == (
                "PUT",
                "sensor_1",
                2.0,
                1.0,
            )
            assert (event_id, message["batch"]) == (f"{job.job_id}:1", 1)
        await job.run(2, {"last": {"sensor_1": 4.0}})
        async with http.get(WATCH, headers={"Last-Event-ID": event_id}) as answer:
            _, message = await next_changes(events(answer))
            assert (message["batch"], message["changes"][0]["value"]) == (2, 4.0)


async def test_a_watch_that_resumes_from_another_job_begins_anew_with_a_gap(
    http: aiohttp.ClientSession, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Of the same name: the batches of the new job are behind the position for long."""
    resumed = {"Last-Event-ID": f"{job.job_id}:900"}
    coordinator = cluster.coordinator
    coordinator.engine.end(job.query_id)
    await asyncio.to_thread(coordinator.coordinator.refresh)
    await asyncio.to_thread(coordinator.coordinator.drop_query, job.query_id)
    new = cluster.job("watched", declare("last", "string", "double"))
    await new.run(0, {"last": {"sensor_1": 5.0}})
    await new.run(1, {"last": {"sensor_1": 6.0}})
    async with asyncio.timeout(DEADLINE_S), http.get(WATCH, headers=resumed) as answer:
        found = events(answer)
        event_id, message = await anext(found)
        assert (event_id, message["gap"]) == ("", {"first_batch": 0, "last_batch": 1})
        assert (await anext(found))[0] == f"{new.job_id}:1"
        await new.run(2, {"last": {"sensor_1": 7.0}})
        event_id, message = await next_changes(found)
        assert (event_id, message["changes"][0]["value"]) == (f"{new.job_id}:2", 7.0)


async def test_a_position_without_its_job_is_refused(
    http: aiohttp.ClientSession, job: InProcessJob
) -> None:
    for event_id in ("1", "watched:1", f"{job.job_id}:", f"{job.job_id}:-2"):
        async with http.get(WATCH, headers={"Last-Event-ID": event_id}) as answer:
            assert answer.status == 400, event_id


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
