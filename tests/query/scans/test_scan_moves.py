"""Scans over all owners while these commit, are busy, and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.scans.scanning import scan, scan_call, taken, values_of
from tests.query.streams import KEYS
from tests.waiting import DEADLINE_S

from queryable_state.server.testing.cluster import declare
from queryable_state.wire.errors import Reason, RetryLaterError, VersionGoneError

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob
    from queryable_state.v1 import query_pb2

ALL = [f"sensor_{number}" for number in range(100)]
WIDE = [f"k{number}" for number in range(4000)]
# More than connections hold of what an owner sent before it was gone.
LARGE = "x" * 10_000
# Of a server's scans; see OpenScans.
MOST_SCANS = 64


async def _wide_job(
    cluster: InProcessCluster, *, value: str = "x" * 2000, durable: bool = False
) -> InProcessJob:
    """A job whose state is in many messages, of four runs of key groups."""
    started = cluster.job(
        "large", declare("wide", "string", "string"), parallelism=4, durable=durable
    )
    await started.run(0, {"wide": dict.fromkeys(WIDE, value)})
    return started


def _wide_scan(channel: grpc.aio.Channel, **fields: Any) -> Any:
    return scan_call(channel, job="large", state_name="wide", **fields)


def _keys(messages: list[query_pb2.ScanKvStateResponse]) -> list[str]:
    return [KEYS.decode_key(each.key) for message in messages for each in message.keys]


async def test_every_scan_is_of_one_batch_while_batches_are_committed(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    """Whatever is gone before the first message is begun anew."""
    await job.run(1, {"last": dict.fromkeys(ALL, 1.0)})

    async def commit() -> None:
        for batch in range(2, 14):
            await job.run(batch, {"last": dict.fromkeys(ALL, float(batch))})

    committing = asyncio.create_task(commit())
    versions = []
    while not committing.done():
        messages = await scan(channel)
        versions.append(messages[0].info.version)
        assert values_of(messages) == dict.fromkeys(ALL, float(versions[-1]))
    await committing
    assert versions == sorted(versions)


@pytest.mark.parametrize("free", [1, 3])
async def test_owners_with_few_scans_free_are_asked_one_part_after_the_other(
    cluster: InProcessCluster, free: int
) -> None:
    await _wide_job(cluster)
    proxy = await cluster.add_proxy()
    for server in cluster.servers:
        server.engine._scans.open = MOST_SCANS - free
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        messages = [message async for message in taken(_wide_scan(channel))]
        assert sorted(_keys(messages)) == sorted(WIDE)
        assert messages[-1].complete
    async with asyncio.timeout(DEADLINE_S):
        while any(  # noqa: ASYNC110 - of many calls
            server.engine._scans.open != MOST_SCANS - free for server in cluster.servers
        ):
            await asyncio.sleep(0.01)


async def test_owners_with_no_scan_free_refuse_it(cluster: InProcessCluster) -> None:
    await _wide_job(cluster)
    proxy = await cluster.add_proxy()
    cluster.servers[0].engine._scans.open = MOST_SCANS
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        with pytest.raises(RetryLaterError, match="scans are open") as refused:
            await anext(taken(_wide_scan(channel)))
    assert refused.value.reason == Reason.OVERLOADED


async def test_a_scan_whose_owner_goes_ends_with_what_to_do(cluster: InProcessCluster) -> None:
    """The new owner has restored a later batch: what was handed out cannot be gone on with."""
    job = await _wide_job(cluster, value=LARGE, durable=True)
    await job.checkpoint()
    proxy = await cluster.add_proxy()
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        messages = taken(_wide_scan(channel))
        first = await anext(messages)
        holder = next(
            server for server in cluster.servers if server.server_id != first.info.server_id
        )
        await cluster.kill_server(holder)
        for batch in range(1, 4):
            await job.run(batch, {"wide": {"k0": str(batch)}})
        with pytest.raises(VersionGoneError, match="scan again from the start"):
            await _drained(messages)
        anew = [message async for message in taken(_wide_scan(channel))]
        assert sorted(_keys(anew)) == sorted(WIDE)
        assert anew[0].info.version == 3


async def test_a_scan_goes_on_where_the_new_owner_has_its_batch(cluster: InProcessCluster) -> None:
    """Behind the last key handed out: none is missing and none comes twice."""
    job = await _wide_job(cluster, value=LARGE, durable=True)
    await job.checkpoint()
    proxy = await cluster.add_proxy()
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        messages = taken(_wide_scan(channel))
        found = [await anext(messages)]
        holder = next(
            server for server in cluster.servers if server.server_id == found[0].info.server_id
        )
        await cluster.kill_server(holder)
        restarted = job.restart()
        assert await asyncio.to_thread(restarted.recover)
        found += [message async for message in messages]
    keys = _keys(found)
    assert len(keys) == len(set(keys))
    assert sorted(keys) == sorted(WIDE)
    assert {message.info.version for message in found} == {0}


async def _drained(messages: Any) -> None:
    async for _ in messages:
        pass
