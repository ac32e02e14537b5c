"""Reads of at least a batch that a durable job has gone back behind: its driver starts again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.waiting import DEADLINE_S

from queryable_state.client import Consistency, InvalidRequestError, VersionGoneError
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from queryable_state.client import QueryableStateClient, ReadInfo
    from queryable_state.server.testing.cluster import InProcessJob

KEYS = [f"sensor_{number}" for number in range(20)]


async def refused(client: QueryableStateClient, consistency: Consistency) -> None:
    """Every kind of read, long before its time is over."""

    async def scan() -> None:
        async with client.scan("sensors", "last", consistency=consistency) as pages:
            await pages.next_page()

    reads: list[Awaitable[object]] = [
        client.get_kv_state("sensors", "last", KEYS[0], consistency=consistency),
        client.get_kv_states("sensors", "last", KEYS, consistency=consistency),
        client.get_kv_states("sensors", "last", KEYS, one_cut=True, consistency=consistency),
        scan(),
    ]
    async with asyncio.timeout(DEADLINE_S / 2):
        for read in reads:
            with pytest.raises(VersionGoneError, match=r"taken back.*without at_least"):
                await read


def again(cluster: InProcessCluster, job: InProcessJob) -> InProcessJob:
    return cluster.job(
        "sensors", declare("last", "string", "double"), durable=True, query_id=job.query_id
    )


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_a_batch_that_was_taken_back_is_refused_and_one_to_come_is_waited_for(
    tmp_path: Path, direct: bool
) -> None:
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        for batch in range(5):
            await job.run(batch, {"last": dict.fromkeys(KEYS, float(batch))})
        async with client_of(cluster.servers[0].addresses.proxy, direct=direct) as client:
            seen = (await client.get_kv_state("sensors", "last", KEYS[0])).info
            assert seen.version == 4
            assert seen.timeline
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(InProcessCluster(tmp_path, servers=2))
        job = again(cluster, job)
        # Batch 3 has its offsets still: it is replayed, and only batch 4 was taken back.
        await job.run(3, {"last": dict.fromkeys(KEYS, 3.0)})
        client = await stack.enter_async_context(
            client_of(cluster.servers[0].addresses.proxy, direct=direct)
        )
        await refused(client, Consistency.at_least(seen))
        await refused(client, Consistency.at_least(4))
        three = await client.get_kv_state(
            "sensors", "last", KEYS[0], consistency=Consistency.at_least(3)
        )
        assert three.info.timeline != seen.timeline
        later = Consistency.at_least(5)
        pending = client.get_kv_state("sensors", "last", KEYS[0], consistency=later)
        await job.run(4, {"last": dict.fromkeys(KEYS, 44.0)})
        await refused(client, Consistency.at_least(seen))
        await job.run(5, {"last": dict.fromkeys(KEYS, 5.0)})
        assert (await pending).value() == 5.0
        await refused(client, Consistency.at_least(seen))
        here = Consistency.at_least(three.info)
        assert (
            await client.get_kv_state("sensors", "last", KEYS[0], consistency=here)
        ).value() == 5.0


async def test_a_restart_that_replays_is_waited_for(tmp_path: Path) -> None:
    """The uncommitted batch runs again; a reader of its own writes waits for its commit."""
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        await job.run(0, {"last": dict.fromkeys(KEYS, 0.0)})
        await job.seal(1, {"last": dict.fromkeys(KEYS, 1.0)})
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            seen = (await client.get_kv_state("sensors", "last", KEYS[0])).info
    async with InProcessCluster(tmp_path) as cluster:
        job = again(cluster, job)
        await job.begin(1)
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            waiting = client.get_kv_state(
                "sensors", "last", KEYS[0], consistency=Consistency.at_least(1)
            )
            at_seen = Consistency.at_least(seen)
            state = await client.get_kv_state("sensors", "last", KEYS[0], consistency=at_seen)
            assert state.info.timeline == seen.timeline
            await job.run(1, {"last": dict.fromkeys(KEYS, 1.0)})
            assert (await waiting).value() == 1.0


async def test_another_job_of_the_name_is_not_the_one_that_was_read(tmp_path: Path) -> None:
    """Its batches are other ones, whatever their numbers."""
    infos: list[ReadInfo] = []
    for folder in ("one", "other"):
        async with InProcessCluster(tmp_path / folder) as cluster:
            job = cluster.job("sensors", declare("last", "string", "double"))
            await job.run(0, {"last": dict.fromkeys(KEYS, 0.0)})
            async with client_of(cluster.servers[0].addresses.proxy) as client:
                if infos:
                    with pytest.raises(VersionGoneError, match="another job"):
                        await client.get_kv_state(
                            "sensors", "last", KEYS[0], consistency=Consistency.at_least(infos[0])
                        )
                infos.append((await client.get_kv_state("sensors", "last", KEYS[0])).info)


def test_at_least_takes_a_batch_or_what_was_read() -> None:
    with pytest.raises(InvalidRequestError, match="or the info of an answer"):
        Consistency.at_least("3")  # type: ignore[arg-type]
