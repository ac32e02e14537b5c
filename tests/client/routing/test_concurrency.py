"""Thousands of queries at a time, and what is left after."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of, until_direct
from tests.waiting import eventually

from queryable_state.client import (
    ClientClosedError,
    KvState,
    QueryableStateClient,
    UnknownKeyOrNamespaceError,
)

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@pytest.fixture(params=["0", ""], ids=["frames", "unary"])
def frame_ports(request: pytest.FixtureRequest) -> str:
    """Both ways of look-ups."""
    ports: str = request.param
    return ports


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_ten_thousand_concurrent_awaits_are_all_right(
    cluster: InProcessCluster, job: InProcessJob, direct: bool
) -> None:
    """Each in a task of its own, on owners of a half each; hits and misses."""
    await job.run(2, {"last": {f"key_{number}": float(number) for number in range(9_000)}})

    async def ask(client: QueryableStateClient, number: int) -> None:
        if number < 9_000:
            state = await client.get_kv_state("sensors", "last", f"key_{number}")
            assert state.value() == number
        else:
            with pytest.raises(UnknownKeyOrNamespaceError, match=f"key_{number}"):
                await client.get_kv_state("sensors", "last", f"key_{number}")

    address = cluster.servers[0].addresses.proxy
    async with client_of(address, direct=direct) as client, asyncio.TaskGroup() as tasks:
        for number in range(10_000):
            tasks.create_task(ask(client, number))


async def test_a_closed_client_leaves_no_task_and_no_descriptor_behind(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    address = cluster.servers[0].addresses.proxy

    async def use(direct: bool) -> None:
        async with client_of(address, direct=direct) as client:
            states = await asyncio.gather(
                *(client.get_kv_state("sensors", "last", f"sensor_{n % 100}") for n in range(1000))
            )
            assert all(isinstance(state, KvState) for state in states)
            if direct:
                await until_direct(client, cluster)

    # The first use opens what the process keeps.
    for direct in (True, False):
        await use(direct)
    await _quiet()
    tasks, descriptors = len(asyncio.all_tasks()), _descriptors()
    for _ in range(5):
        for direct in (True, False):
            await use(direct)
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
    await eventually(lambda: _descriptors() <= descriptors)


async def test_queries_pending_when_the_client_closes_fail_at_once(
    client: QueryableStateClient,
) -> None:
    """Whether they wait for a location, for the end of the turn, or for an answer."""
    unlocated = client.get_kv_state("sensors", "seen", "sensor_1")
    many = client.get_kv_states("sensors", "last", ["sensor_1", "sensor_2"])
    listing = asyncio.create_task(client.list_jobs())
    await asyncio.sleep(0)
    just_asked = client.get_kv_state("sensors", "last", "sensor_1")
    await client.aclose()
    for pending in (unlocated, many, just_asked, listing):
        async with asyncio.timeout(1):
            with pytest.raises(ClientClosedError):
                await pending
    await client.aclose()


async def test_a_cancelled_await_harms_no_other(client: QueryableStateClient) -> None:
    await client.get_kv_state("sensors", "last", "sensor_1")
    cancelled = client.get_kv_state("sensors", "last", "sensor_1")
    others = [client.get_kv_state("sensors", "last", f"sensor_{n}") for n in range(10)]
    many = client.get_kv_states("sensors", "last", ["sensor_1"])
    cancelled.cancel()
    many.cancel()
    assert [(await other).value() for other in others] == list(range(10))
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_client_left_open_is_reported(cluster: InProcessCluster, job: InProcessJob) -> None:
    client = client_of(cluster.servers[0].addresses.proxy)
    await client.get_kv_state("sensors", "last", "sensor_1")
    with pytest.warns(ResourceWarning, match="never closed"):
        client.__del__()
    await client.aclose()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.__del__()
        # One that was never used holds nothing open.
        client_of("127.0.0.1:1").__del__()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _quiet() -> None:
    """Waits until what was closed is gone on the servers' side, too."""
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0.05)


async def test_awaits_that_are_divided_among_messages_are_all_right(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """As loops that ask again at once, while others begin and end; each gets its own answer."""
    await job.run(2, {"last": {f"key_{number}": float(number) for number in range(600)}})
    address = cluster.servers[0].addresses.proxy

    async def ask_on(client: QueryableStateClient, first: int, times: int) -> None:
        for number in range(first, first + times):
            state = await client.get_kv_state("sensors", "last", f"key_{number}")
            assert state.value() == number

    async with client_of(address, direct=True) as client:
        await until_direct(client, cluster)
        async with asyncio.TaskGroup() as tasks:
            for number in range(500):
                tasks.create_task(ask_on(client, number, 5 + number % 90))
