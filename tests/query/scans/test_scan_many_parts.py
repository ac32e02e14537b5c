"""Scans of many runs of key groups, taken slowly from a job that commits all the while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc.aio
import pytest
from tests.query.scans.scanning import scan, scan_call, taken
from tests.waiting import DEADLINE_S

from queryable_state.server.query import service
from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob, declare
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LARGE = {f"sensor_{number}": "x" * 5_000 for number in range(3_000)}
# Connections hold little of what was sent and not taken.
NARROW = (("grpc.http2.bdp_probe", 0),)


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    """40 runs of key groups, owned by two servers in turn."""
    started = cluster.job("sensors", declare("last", "string", "string"), parallelism=40)
    await started.run(0, {"last": LARGE})
    return started


@pytest.fixture
async def channel(cluster: InProcessCluster, job: InProcessJob) -> AsyncIterator[grpc.aio.Channel]:
    proxy = await cluster.add_proxy()
    async with grpc.aio.insecure_channel(proxy.address, options=NARROW) as opened:
        yield opened


async def _commit_batches(job: InProcessJob) -> None:
    """So many that the first one is compacted."""
    for batch in range(1, 5):
        await job.run(batch, {"last": {"sensor_1": str(batch)}})


async def test_every_owner_keeps_the_batch_of_the_scan_until_its_last_run(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    messages = taken(scan_call(channel))
    found = [await anext(messages)]
    await _commit_batches(job)
    found += [message async for message in messages]
    assert {message.info.version for message in found} == {0}
    assert found[-1].complete
    keys = [each.key for message in found for each in message.keys]
    assert keys == sorted(set(keys))
    assert len(keys) == len(LARGE)


async def test_a_page_that_needs_several_owners_is_of_one_batch(
    job: InProcessJob, channel: grpc.aio.Channel
) -> None:
    """However few its keys are: those not reached yet have pinned it, too."""
    messages = taken(scan_call(channel, limit=500))
    found = [await anext(messages)]
    await _commit_batches(job)
    found += [message async for message in messages]
    assert {message.info.version for message in found} == {0}
    assert sum(len(message.keys) for message in found) == 500


async def test_a_page_that_the_first_owner_has_asks_no_other(
    cluster: InProcessCluster, job: InProcessJob, channel: grpc.aio.Channel
) -> None:
    [message] = await scan(channel, limit=5)
    assert message.info.server_id == cluster.servers[0].server_id


async def test_each_owner_is_queried_once_for_all_its_runs(
    cluster: InProcessCluster, channel: grpc.aio.Channel
) -> None:
    messages = taken(scan_call(channel))
    await anext(messages)
    assert [server.engine._scans.open for server in cluster.servers] == [1, 1]
    await messages.aclose()


@pytest.mark.parametrize("limit", [1, 700])
async def test_pages_go_on_in_the_middle_of_any_run(channel: grpc.aio.Channel, limit: int) -> None:
    keys: list[bytes] = []
    token = b""
    while token or not keys:
        if len(keys) > 20 * limit:
            limit = 0
        messages = await scan(channel, limit=limit, page_token=token, keys_only=True)
        keys += [each.key for message in messages for each in message.keys]
        token = messages[-1].page_token
    assert keys == sorted(set(keys))
    assert len(keys) == len(LARGE)


@pytest.mark.parametrize("idle_s", [0.0, 0.2])
async def test_a_scan_that_is_not_taken_lets_its_batch_go_everywhere(
    cluster: InProcessCluster,
    channel: grpc.aio.Channel,
    monkeypatch: pytest.MonkeyPatch,
    idle_s: float,
) -> None:
    """In the middle of it, and before its first message is out."""

    def under_way() -> bool:
        return any(server.engine._scans.open for server in cluster.servers)

    monkeypatch.setattr(service, "_IDLE_S", idle_s)
    messages = taken(scan_call(channel))
    async with asyncio.timeout(DEADLINE_S):
        if idle_s:
            while not under_way():  # noqa: ASYNC110 - of many calls
                await asyncio.sleep(0.005)
            while under_way():  # noqa: ASYNC110 - of many calls
                await asyncio.sleep(0.005)
        with pytest.raises(RetryLaterError, match="read nothing"):
            async for _ in messages:
                pass
        while under_way():  # noqa: ASYNC110 - of many calls
            await asyncio.sleep(0.005)


async def test_an_owner_whose_turn_comes_late_still_has_the_batch(
    cluster: InProcessCluster, job: InProcessJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long others take: only the taker of the whole must not stand still."""
    proxy = await cluster.add_proxy()
    async with grpc.aio.insecure_channel(proxy.address, options=NARROW) as channel:
        messages = taken(scan_call(channel))
        found = [await anext(messages)]
        monkeypatch.setattr(service, "_IDLE_S", 0.3)
        await _commit_batches(job)
        async for message in messages:
            found.append(message)
            await asyncio.sleep(0.02)
    assert sum(len(message.keys) for message in found) == len(LARGE)
