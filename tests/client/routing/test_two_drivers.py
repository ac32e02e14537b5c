"""Two drivers on one state root: what clients and tasks of the older one are told."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.waiting import eventually

from queryable_state.client import Reason
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.wire.errors import SupersededError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.client import QueryableStateClient

LEASE_MS = 3_000
KEYS = [f"sensor_{number}" for number in range(20)]


async def answers(client: QueryableStateClient) -> dict[object, int]:
    """How many keys have each value."""
    states = await client.get_kv_states("sensors", "last", KEYS)
    values = [None if state is None else state.value() for state in states]
    return {value: values.count(value) for value in values}


@pytest.mark.parametrize("frame_ports", ["0", ""], ids=["frames", "unary"])
async def test_the_older_driver_answers_and_seals_nothing_after_a_heartbeat(
    tmp_path: Path, frame_ports: str
) -> None:
    state = declare("last", "string", "double")
    async with (
        InProcessCluster(tmp_path, lease_ms=LEASE_MS, frame_ports=frame_ports) as older,
        InProcessCluster(tmp_path, servers=0) as newer,
    ):
        job = older.job("sensors", state, durable=True)
        await job.run(0, {"last": dict.fromkeys(KEYS, 1.0)})
        proxy = (await older.add_proxy()).address
        async with client_of(proxy, direct=True) as direct, client_of(proxy, direct=False) as via:
            assert await answers(direct) == await answers(via) == {1.0: len(KEYS)}

            engine = newer.coordinator.engine
            taking_over = newer.job("sensors", state, durable=True, query_id=job.query_id)
            engine.plan(job.query_id, 0)
            engine.commit(job.query_id, 0)
            await newer.add_server(executor_id="of the newer driver")
            await taking_over.begin(1)
            taken_over_s = time.monotonic()
            await eventually(lambda: job.query_id in older.coordinator.engine.stopped)
            assert time.monotonic() - taken_over_s < LEASE_MS / 1000
            await taking_over.seal(1, {"last": dict.fromkeys(KEYS, 2.0)})
            await taking_over.commit(1)

            await eventually(lambda: older.servers[0].table.job(job.query_id) is None)
            for client in (direct, via):
                with pytest.raises(SupersededError, match="query it at the other driver") as told:
                    await answers(client)
                assert told.value.reason == Reason.FENCED
                with pytest.raises(SupersededError):
                    [entry async for entry in client.scan("sensors", "last")]
            with pytest.raises(SupersededError, match="another driver has taken over"):
                await job.seal(1, {"last": dict.fromkeys(KEYS, 3.0)})
        async with client_of(newer.servers[0].addresses.proxy) as client:
            assert await answers(client) == {2.0: len(KEYS)}
        stopped = older.coordinator.engine.stopped[job.query_id]
        assert stopped.reason == Reason.FENCED
        assert newer.coordinator.engine.stopped == {}


async def test_a_seal_of_the_older_driver_after_the_take_over_counts_for_nothing(
    tmp_path: Path,
) -> None:
    """Its batch began before, and its next heartbeat is far away."""
    state = declare("last", "string", "double")
    async with (
        InProcessCluster(tmp_path, lease_ms=60_000) as older,
        InProcessCluster(tmp_path, servers=0) as newer,
    ):
        job = older.job("sensors", state, durable=True)
        await job.run(0, {"last": dict.fromkeys(KEYS, 1.0)})
        await job.begin(1)
        taking_over = newer.job("sensors", state, durable=True, query_id=job.query_id)
        for batch in (0, 1):
            newer.coordinator.engine.plan(job.query_id, batch)
        newer.coordinator.engine.commit(job.query_id, 0)
        await newer.add_server(executor_id="of the newer driver")
        await taking_over.begin(1)
        # Another input than the newer one's, so that it shows where it counts.
        await job.seal(1, {"last": dict.fromkeys(KEYS, 3.0)})
        await taking_over.seal(1, {"last": dict.fromkeys(KEYS[:10], 2.0)})
        await taking_over.commit(1)
        older.coordinator.engine.commit(job.query_id, 1)
        await asyncio.to_thread(older.coordinator.coordinator.batch_committed, job.query_id, 1)
        await eventually(lambda: job.query_id in older.coordinator.engine.stopped)
        async with client_of(newer.servers[0].addresses.proxy) as client:
            assert await answers(client) == {2.0: 10, 1.0: 10}
        await newer.respawn_server(newer.servers[0])
        await taking_over.run(2, {"last": {KEYS[0]: 4.0}})
        async with client_of(newer.servers[0].addresses.proxy) as client:
            assert await answers(client) == {4.0: 1, 2.0: 9, 1.0: 10}
