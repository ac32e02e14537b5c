"""Scans, their page tokens and measures while owners change, and after everything began again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.waiting import eventually

from queryable_state.client import QueryableStateClient, ValueState, VersionGoneError
from queryable_state.server.testing import InMemoryEngine
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.client import Scan
    from queryable_state.server.testing.cluster import InProcessJob

KEYS = [f"key_{number:05}" for number in range(4_000)]
# More in all than a connection holds of what an owner has sent before it went.
LARGE = "x" * 10_000


def wide(cluster: InProcessCluster, query_id: bytes | None = None) -> InProcessJob:
    """A durable job whose state is in many pages, of four runs of key groups."""
    return cluster.job(
        "wide",
        declare("wide", "string", "string"),
        parallelism=4,
        durable=True,
        query_id=query_id,
    )


def stored(batch: int) -> dict[str, dict[str, str]]:
    return {"wide": {key: f"{batch} {key} {LARGE}" for key in KEYS}}


async def taken(scan: Scan) -> dict[str, str]:
    """The rest of a scan; no key comes twice."""
    found: dict[str, str] = {}
    async for key, state in scan:
        assert isinstance(state, ValueState)
        assert key not in found
        found[key] = state.value()
    return found


async def recovered(job: InProcessJob) -> None:
    assert await asyncio.to_thread(job.recover)


async def test_a_scan_goes_on_at_the_next_owner(tmp_path: Path) -> None:
    """The owner of what is left is killed; who takes over has the batch still."""
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        job = wide(cluster)
        await job.run(0, stored(0))
        proxy = await cluster.add_proxy()
        async with client_of(proxy.address) as client, client.scan("wide", "wide") as scan:
            begun = await scan.next_page()
            assert begun is not None
            assert scan.info is not None
            answering = scan.info.server_id
            await cluster.kill_server(
                next(each for each in cluster.servers if each.server_id != answering)
            )
            await recovered(job.restart())
            rest = await taken(scan)
            assert not rest.keys() & {key for key, _ in begun}
            assert len(begun) + len(rest) == len(KEYS)
            assert all(value.startswith(f"0 {key} ") for key, value in rest.items())
            assert scan.complete
            assert scan.info.version == 0


async def test_a_scan_that_cannot_go_on_says_so_and_begins_again(tmp_path: Path) -> None:
    """Batches were committed meanwhile: nobody has the one it began with."""
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        job = wide(cluster)
        await job.run(0, stored(0))
        proxy = await cluster.add_proxy()
        async with client_of(proxy.address) as client, client.scan("wide", "wide") as scan:
            await scan.next_page()
            assert scan.info is not None
            answering = scan.info.server_id
            await cluster.kill_server(
                next(each for each in cluster.servers if each.server_id != answering)
            )
            for batch in range(1, 4):
                await job.run(batch, {"wide": {KEYS[0]: str(batch)}})
            with pytest.raises(VersionGoneError, match="scan again"):
                await taken(scan)
            assert not scan.complete
            anew = client.scan("wide", "wide")
            assert (await taken(anew)).keys() == set(KEYS)
            assert anew.complete


async def test_a_page_token_goes_on_after_everything_ended_and_began_again(tmp_path: Path) -> None:
    """While the batch is there still; then it says that it is not."""
    engine = InMemoryEngine()
    async with InProcessCluster(tmp_path, servers=2, engine=engine) as cluster:
        job = wide(cluster)
        for batch in range(3):
            await job.run(batch, stored(batch))
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            scan = client.scan("wide", "wide", limit=100)
            first = await taken(scan)
            token = scan.page_token
    async with InProcessCluster(tmp_path, servers=2, engine=engine) as cluster:
        job = wide(cluster, job.query_id)
        await recovered(job)
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            scan = client.scan("wide", "wide", page_token=token)
            rest = await taken(scan)
            assert not first.keys() & rest.keys()
            assert {*first, *rest} == set(KEYS)
            assert all(value.startswith(f"2 {key} ") for key, value in rest.items())
            assert scan.complete
            assert scan.info is not None
            assert scan.info.version == 2
            for batch in range(3, 8):
                await job.run(batch, {"wide": {KEYS[0]: str(batch)}})
            with pytest.raises(VersionGoneError):
                await taken(client.scan("wide", "wide", page_token=token))


async def test_a_measure_during_a_move_is_incomplete_or_whole(tmp_path: Path) -> None:
    """Never a sum that leaves out what moved, and says nothing."""
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        job = wide(cluster)
        await job.run(0, stored(0))
        proxy = await cluster.add_proxy()
        async with client_of(proxy.address) as client:
            assert await _is_whole(client)
            await cluster.kill_server(cluster.servers[1])
            moving = asyncio.create_task(job.run(1, {"wide": {KEYS[0]: "1"}}))
            while not moving.done():
                measured = await client.measure("wide", "wide")
                failed = [part for part in measured.parts if part.error is not None]
                assert measured.complete == (not failed)
                groups = [
                    group
                    for part in measured.parts
                    for group in range(part.first_key_group, part.last_key_group + 1)
                ]
                assert groups == list(range(128))
            await moving
            await until_whole(client)


async def _is_whole(client: QueryableStateClient) -> bool:
    measured = await client.measure("wide", "wide")
    # Estimated; what was written again counts twice until it is compacted.
    return measured.complete and len(KEYS) // 2 <= measured.records <= 3 * len(KEYS)


async def until_whole(client: QueryableStateClient) -> None:
    whole = asyncio.Event()

    async def measure() -> None:
        while not await _is_whole(client):
            pass
        whole.set()

    measuring = asyncio.create_task(measure())
    await eventually(whole.is_set)
    await measuring
