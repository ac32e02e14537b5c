"""What a client does after a job was replaced by another one of the same name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.asking import client_of
from tests.waiting import DEADLINE_S

from queryable_state.client import Clock, TimeWindow, UnknownJobError, UnknownStateError
from queryable_state.server.testing.changes import Windows
from queryable_state.server.testing.cluster import declare, windowed
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

KEYS = [f"sensor_{number}" for number in range(8)]
WINDOW = TimeWindow(0, 1000)


async def _value(client: QueryableStateClient, job: str) -> Any:
    return (await client.get_kv_state(job, "last", "sensor_1")).value()


async def _values(client: QueryableStateClient, job: str) -> Any:
    states = await client.get_kv_states(job, "last", KEYS)
    (value,) = {state and state.value() for state in states}
    return value


async def _values_of_one_batch(client: QueryableStateClient, job: str) -> Any:
    found = await client.multi_get(job, "last", KEYS, one_cut=True)
    (value,) = {state.value() for _, state in found.found()}
    return value


async def _scanned(client: QueryableStateClient, job: str) -> Any:
    async with client.scan(job, "last") as scan:
        (value,) = {state and state.value() async for _, state in scan}
    return value


async def _window(client: QueryableStateClient, job: str) -> Any:
    return (await client.get_windows(job, "hourly", "sensor_1"))[WINDOW].value()


async def _timer(client: QueryableStateClient, job: str) -> Any:
    return (await client.get_timers(job, "timers", "sensor_1"))[0].timestamp_ms


async def _watched(client: QueryableStateClient, job: str) -> Any:
    async with client.watch(job, "last", keys=["sensor_1"], after_batch=-1) as watch:
        return (await anext(watch)).new


ASKS = (_value, _values, _values_of_one_batch, _scanned, _window, _timer, _watched)


async def _started(cluster: InProcessCluster, number: int) -> InProcessJob:
    job = cluster.job(
        "sensors",
        declare("last", "string", "double"),
        declare("timers", "string", kind=registration_pb2.TIMER),
        windowed(declare("hourly", "string", "double")),
    )
    await job.run(
        0,
        {
            "last": dict.fromkeys(KEYS, float(number)),
            "timers": {key: {(Clock.EVENT_TIME, number): True} for key in KEYS},
            "hourly": {key: Windows({WINDOW: float(number)}) for key in KEYS},
        },
    )
    return job


async def _end(cluster: InProcessCluster, job: InProcessJob) -> None:
    coordinator = cluster.coordinator
    coordinator.engine.end(job.query_id)
    await asyncio.to_thread(coordinator.coordinator.refresh)
    await asyncio.to_thread(coordinator.coordinator.drop_query, job.query_id)


async def _describes(client: QueryableStateClient, job: InProcessJob) -> None:
    """Waits until the name is that of this job for a client: proxies know a name for a second."""
    async with asyncio.timeout(DEADLINE_S):
        while (await client.describe_state("sensors", "last")).job_id != job.job_id:
            pass


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
@pytest.mark.parametrize("ask", ASKS)
async def test_a_client_reads_the_job_that_has_the_name_now(
    cluster: InProcessCluster,
    direct: bool,
    ask: Callable[[QueryableStateClient, str], Awaitable[Any]],
) -> None:
    """The first call after the replacement is answered, as if the client were new."""
    proxy = await cluster.add_proxy()
    old = await _started(cluster, 1)
    async with client_of(proxy.address, direct=direct) as client:
        assert await ask(client, "sensors") == 1
        await _end(cluster, old)
        await _started(cluster, 2)
        assert await ask(client, "sensors") == 2


@pytest.mark.parametrize("ask", [_value, _scanned, _watched])
async def test_answers_are_read_as_the_types_of_the_job_that_gave_them(
    cluster: InProcessCluster, ask: Callable[[QueryableStateClient, str], Awaitable[Any]]
) -> None:
    """An integer and a double have as many bytes."""
    proxy = await cluster.add_proxy()
    old = await _started(cluster, 1)
    async with client_of(proxy.address, direct=False) as client:
        assert await ask(client, "sensors") == 1
        await _end(cluster, old)
        new = cluster.job("sensors", declare("last", "string", "bigint"))
        await new.run(0, {"last": dict.fromkeys(KEYS, 2)})
        async with client_of(proxy.address) as other:
            await _describes(other, new)
        assert await ask(client, "sensors") == 2


async def test_a_state_is_described_as_the_job_has_it_that_has_the_name_now(
    cluster: InProcessCluster,
) -> None:
    proxy = await cluster.add_proxy()
    old = await _started(cluster, 1)
    async with client_of(proxy.address) as client:
        assert (await client.describe_state("sensors", "last")).job_id == old.job_id
        await _end(cluster, old)
        new = await _started(cluster, 2)
        await _describes(client, new)


async def test_an_open_watch_does_not_go_on_in_another_job_of_the_same_name(
    cluster: InProcessCluster,
) -> None:
    """The batches of that one count anew."""
    proxy = await cluster.add_proxy()
    old = await _started(cluster, 1)
    async with client_of(proxy.address) as client, asyncio.timeout(DEADLINE_S):
        async with client.watch("sensors", "last", reconnect_timeout_s=DEADLINE_S) as watch:
            await _end(cluster, old)
            await _started(cluster, 2)
            # The second one if the watch looked for its job before the other job had the state.
            with pytest.raises((UnknownJobError, UnknownStateError), match=r"open another|'last'"):
                await anext(watch)
        assert await _watched(client, "sensors") == 2


@pytest.mark.parametrize("ask", ASKS)
async def test_a_job_that_is_named_by_its_id_is_replaced_by_no_other(
    cluster: InProcessCluster, ask: Callable[[QueryableStateClient, str], Awaitable[Any]]
) -> None:
    proxy = await cluster.add_proxy()
    old = await _started(cluster, 1)
    async with client_of(proxy.address, direct=False) as client:
        assert await ask(client, old.job_id) == 1
        await _end(cluster, old)
        await _started(cluster, 2)
        with pytest.raises(UnknownJobError, match=old.job_id):
            await ask(client, old.job_id)
