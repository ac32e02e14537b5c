"""Watches over lost servers: each change exactly once, also behind a restore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.client.asking import client_of
from tests.client.watches.test_watches import next_changes

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob

KEYS = [f"key_{number}" for number in range(12)]


def durable(cluster: InProcessCluster) -> InProcessJob:
    return cluster.job("kept", declare("values", "string", "bigint"), parallelism=4, durable=True)


async def test_a_watch_goes_on_at_the_next_owner(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, servers=3) as cluster:
        job = durable(cluster)
        await job.run(0, {"values": dict.fromkeys(KEYS, 0)})
        proxy = await cluster.add_proxy()
        async with client_of(proxy.address) as client, client.watch("kept", "values") as watch:
            await job.run(1, {"values": dict.fromkeys(KEYS, 1)})
            await next_changes(watch, 5)
            await cluster.kill_server(cluster.servers[-1])
            rest = await next_changes(watch, 7)
            assert {each.batch for each in rest} == {1}
            await job.run(2, {"values": dict.fromkeys(KEYS, 2)})
            changes = await next_changes(watch, 12)
    assert {(each.key, each.batch, each.old, each.new) for each in changes} == {
        (key, 2, 1, 2) for key in KEYS
    }


async def test_batches_before_a_restore_are_still_there(tmp_path: Path) -> None:
    """The changelogs that a new owner replays are its history."""
    async with InProcessCluster(tmp_path, servers=1) as cluster:
        job = durable(cluster)
        for batch in range(3):
            await job.run(batch, {"values": dict.fromkeys(KEYS, batch)})
        await cluster.kill_server(cluster.servers[0])
        await cluster.add_server()
        await job.run(3, {"values": dict.fromkeys(KEYS, 3)})
        async with (
            client_of(cluster.servers[0].addresses.proxy) as client,
            client.watch("kept", "values", after_batch=0) as watch,
        ):
            changes = await next_changes(watch, 36)
    assert [each.batch for each in changes] == [1] * 12 + [2] * 12 + [3] * 12
    assert {(each.old, each.new) for each in changes} == {(0, 1), (1, 2), (2, 3)}
