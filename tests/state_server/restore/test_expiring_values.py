"""Timestamps of values over restores, rescales and a change of the backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.state_server.restore.stored import BACKENDS, config
from tests.waiting import eventually

from queryable_state.client import UnknownKeyOrNamespaceError
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.values.value_codec import timestamp_of

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000
LONG_GONE_MS = -100_000
"""A time before all batches, whose timestamps are a few seconds after the epoch."""


def timestamps(cluster: InProcessCluster) -> list[int | None]:
    """The timestamps of all stored values, sorted."""
    found = [
        timestamp_of(value)
        for server in cluster.servers
        for subtask in server.table.subtasks()
        for state_id in subtask.states
        for _, value in subtask.store.prefix(state_id, b"")
    ]
    return sorted(found, key=lambda each: each or 0)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_life_of_a_value_goes_on_where_it_was(tmp_path: Path, backend: str) -> None:
    """From a checkpoint and a changelog, on another server, at another parallelism."""
    async with InProcessCluster(tmp_path, config=config(backend=backend)) as cluster:
        job = cluster.job("sensors", declare("last", ttl_ms=HOUR_MS), durable=True)
        now_ms = job.updated_ms
        job.updated_ms = now_ms - 2 * HOUR_MS
        await job.run(0, {"last": {"expired": 1, "renewed": 1}})
        await job.checkpoint()
        job.updated_ms = now_ms
        await job.run(1, {"last": {"renewed": 2}})
        await cluster.respawn_server(cluster.servers[0])
        restarted = job.restart(parallelism=3)
        restarted.updated_ms = now_ms
        await restarted.run(2, {})
        assert timestamps(cluster) == [now_ms - 2 * HOUR_MS, now_ms]
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            found = await client.get_kv_state("sensors", "last", "renewed")
            assert (found.value(), found.expires_at_ms) == (2, now_ms + HOUR_MS)
            with pytest.raises(UnknownKeyOrNamespaceError):
                await client.get_kv_state("sensors", "last", "expired")


async def test_another_ttl_on_restart_applies_to_stored_values(tmp_path: Path) -> None:
    state = declare("last", ttl_ms=HOUR_MS)
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = cluster.job("sensors", state, durable=True)
        written_ms = job.updated_ms = job.updated_ms - 2 * HOUR_MS
        await job.run(0, {"last": {"key": 1}})
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            with pytest.raises(UnknownKeyOrNamespaceError):
                await client.get_kv_state("sensors", "last", "key")
            state.ttl.ttl_ms = 24 * HOUR_MS
            await job.restart().run(1, {})
            found = await client.get_kv_state("sensors", "last", "key")
            assert found.expires_at_ms == written_ms + 24 * HOUR_MS
            state.ClearField("ttl")
            await job.restart().run(2, {})
            found = await client.get_kv_state("sensors", "last", "key")
            assert (found.value(), found.remaining_ms) == (1, None)


@pytest.mark.parametrize("cleaned", [True, False])
async def test_a_checkpoint_leaves_out_gone_values_if_the_state_says_so(
    tmp_path: Path, cleaned: bool
) -> None:
    state = declare("last", ttl_ms=1)
    state.ttl.clean_snapshots = cleaned
    async with InProcessCluster(tmp_path, config=config(backend="heap")) as cluster:
        job = cluster.job("sensors", state, durable=True)
        now_ms, job.updated_ms = job.updated_ms, LONG_GONE_MS
        await job.run(0, {"last": {"gone": 1}})
        job.updated_ms = now_ms
        await job.run(1, {"last": {"live": 1}})
        await job.checkpoint()
        assert timestamps(cluster) == [LONG_GONE_MS, now_ms]
        await cluster.respawn_server(cluster.servers[0])
        await job.run(2, {})
        assert timestamps(cluster) == ([now_ms] if cleaned else [LONG_GONE_MS, now_ms])


@pytest.mark.parametrize("backend", BACKENDS)
async def test_commits_clean_up_in_the_background(tmp_path: Path, backend: str) -> None:
    state = declare("last", ttl_ms=1)
    state.ttl.visits_per_commit = 100
    async with InProcessCluster(tmp_path, config=config(backend=backend)) as cluster:
        job = cluster.job("sensors", state)
        now_ms, job.updated_ms = job.updated_ms, LONG_GONE_MS
        await job.run(0, {"last": {"gone": 1}})
        job.updated_ms = now_ms
        await job.run(1, {"last": {"live": 1}})
        await job.run(2, {})
        await eventually(lambda: timestamps(cluster) == [now_ms])
