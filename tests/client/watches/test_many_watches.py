"""Many watches of one client: they share streams, and each gets its own changes once."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.client.watches.test_failovers import durable
from tests.client.watches.test_watches import GAP, PUT, next_changes
from tests.waiting import DEADLINE_S

from queryable_state.client import ClientClosedError, UnknownJobError
from queryable_state.server.config.limits import Limits
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.client import QueryableStateClient, Watch
    from queryable_state.server.testing.cluster import InProcessJob

COUNT = 60
KEYS = [f"key_{number}" for number in range(COUNT)]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(tmp_path, servers=2) as running:
        yield running


@pytest.fixture
async def many_job(cluster: InProcessCluster) -> InProcessJob:
    job = durable(cluster)
    await job.run(0, {"values": dict.fromkeys(KEYS, 0)})
    return job


@pytest.fixture
async def many_client(cluster: InProcessCluster) -> AsyncIterator[QueryableStateClient]:
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        yield client


async def watches_of(client: QueryableStateClient, keys: list[str]) -> list[Watch]:
    watches = [client.watch("kept", "values", keys=[key]) for key in keys]
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*(watch.open() for watch in watches))
    return watches


async def test_each_watch_gets_every_change_of_its_key_once(
    many_job: InProcessJob, many_client: QueryableStateClient
) -> None:
    watches = await watches_of(many_client, KEYS)
    for batch in range(1, 30):
        await many_job.run(
            batch, {"values": {KEYS[at]: batch for at in range(batch % 3, COUNT, 3)}}
        )
    for number, watch in enumerate(watches):
        expected = [batch for batch in range(1, 30) if number % 3 == batch % 3]
        changes = await next_changes(watch, len(expected))
        assert {each.key for each in changes} == {KEYS[number]}
        assert [each.batch for each in changes] == expected
        assert [each.new for each in changes] == expected
        assert [each.old for each in changes] == [0, *expected[:-1]]


async def test_a_watch_opened_later_has_only_later_changes(
    many_job: InProcessJob, many_client: QueryableStateClient
) -> None:
    watches: list[Watch] = []
    for batch, key in enumerate(KEYS, 1):
        watches += await watches_of(many_client, [key])
        await many_job.run(batch, {"values": dict.fromkeys(KEYS, batch)})
    for opened, watch in enumerate(watches, 1):
        changes = await next_changes(watch, COUNT - opened + 1)
        assert [each.batch for each in changes] == [*range(opened, COUNT + 1)]


async def test_two_watches_of_one_key_both_get_its_changes(
    many_job: InProcessJob, many_client: QueryableStateClient
) -> None:
    watches = await watches_of(many_client, ["key_1"] * COUNT)
    await many_job.run(1, {"values": {"key_1": 1}})
    for watch in watches:
        assert [each.new for each in await next_changes(watch, 1)] == [1]


async def test_changes_are_exact_over_a_lost_server(
    cluster: InProcessCluster, many_job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address, timeout_s=DEADLINE_S) as client:
        watches = await watches_of(client, KEYS)
        await many_job.run(1, {"values": dict.fromkeys(KEYS, 1)})
        await next_changes(watches[0], 1)
        await cluster.kill_server(cluster.servers[-1])
        await many_job.run(2, {"values": dict.fromkeys(KEYS, 2)})
        for number, watch in enumerate(watches):
            changes = await next_changes(watch, 1 if not number else 2)
            assert [(each.old, each.new) for each in changes] == [(0, 1), (1, 2)][-len(changes) :]


@pytest.mark.slow
async def test_a_slow_watch_holds_up_no_other_one(tmp_path: Path) -> None:
    large = "x" * 20_000
    limits = Limits(watch_history_bytes=4_000_000)
    async with InProcessCluster(tmp_path, limits=limits) as cluster:
        job = cluster.job("kept", declare("values", "string", "string"))
        await job.run(0, {})
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            slow, *others = await watches_of(client, KEYS[:12])
            for batch in range(1, 200):
                await job.run(batch, {"values": dict.fromkeys(KEYS[:12], f"{batch} {large}")})
                for watch in others:
                    [change] = await next_changes(watch, 1)
                    assert (change.kind, change.batch) == (PUT, batch)
            batches: list[int] = []
            missed: set[int] = set()
            async with asyncio.timeout(DEADLINE_S):
                while not batches or batches[-1] < 199:
                    change = await anext(slow)
                    if change.kind is GAP:
                        assert change.first_missed_batch is not None
                        missed.update(range(change.first_missed_batch, change.batch + 1))
                    else:
                        batches.append(change.batch)
            assert missed
            assert sorted({*missed, *batches}) == [*range(1, 200)]
            assert batches == sorted(set(batches))


async def test_closed_watches_end_and_the_others_go_on(
    many_job: InProcessJob, many_client: QueryableStateClient
) -> None:
    watches = await watches_of(many_client, KEYS)
    waiting = asyncio.ensure_future(anext(watches[0], None))
    await asyncio.sleep(0)
    for watch in watches[:50]:
        await watch.aclose()
    assert await waiting is None
    await many_job.run(1, {"values": dict.fromkeys(KEYS, 1)})
    for watch in watches[50:]:
        assert [each.new for each in await next_changes(watch, 1)] == [1]


async def test_streams_keep_no_forgotten_watch(
    many_job: InProcessJob, many_client: QueryableStateClient
) -> None:
    watches = await watches_of(many_client, KEYS)
    for batch in range(1, 4):
        await many_job.run(batch, {"values": dict.fromkeys(KEYS, batch)})
        assert [each.new for each in await next_changes(watches[-1], 1)] == [batch]
    kept, forgotten = watches[-1], [weakref.ref(watch._inbox) for watch in watches[:-1]]
    del watches
    gc.collect()
    assert not [each for each in forgotten if each() is not None]
    await many_job.run(4, {"values": dict.fromkeys(KEYS, 4)})
    assert [each.new for each in await next_changes(kept, 1)] == [4]


async def test_two_tasks_open_a_watch_once(
    many_job: InProcessJob, many_client: QueryableStateClient
) -> None:
    watch = many_client.watch("kept", "values", keys=["key_1"])
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.gather(watch.open(), watch.open())
    await many_job.run(1, {"values": {"key_1": 1}})
    assert (await waiting).new == 1


async def test_every_watch_raises_that_its_client_was_closed(
    cluster: InProcessCluster, many_job: InProcessJob
) -> None:
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        watches = await watches_of(client, KEYS)
        waiting = [asyncio.ensure_future(anext(watch)) for watch in watches]
        await asyncio.sleep(0)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(each) for each in results} == {ClientClosedError}


async def test_every_watch_is_refused_alike(many_client: QueryableStateClient) -> None:
    watches = [many_client.watch("nobody", "values", keys=[key]) for key in KEYS]
    results = await asyncio.gather(*(watch.open() for watch in watches), return_exceptions=True)
    assert {type(each) for each in results} == {UnknownJobError}
