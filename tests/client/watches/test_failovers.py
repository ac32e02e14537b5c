"""Watches over lost servers: each change exactly once, also behind a restore."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.client.asking import DEADLINE_S, client_of
from tests.client.watches.test_watches import GAP, next_changes

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.client import Change, Watch
    from queryable_state.server.testing.cluster import InProcessJob

KEYS = [f"key_{number}" for number in range(12)]


def durable(cluster: InProcessCluster) -> InProcessJob:
    return cluster.job("kept", declare("values", "string", "bigint"), parallelism=4, durable=True)


async def read_up_to(watch: Watch, batch: int, seen: list[Change]) -> None:
    """Reads changes up to the one of the key that every batch changes last of all batches."""
    async with asyncio.timeout(DEADLINE_S):
        while not any(each.batch == batch and each.key == "end" for each in seen):
            seen.append(await anext(watch))


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


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(
        st.sampled_from(["batch", "batch", "batch", "empty", "kill", "proxy", "reopen", "read"]),
        min_size=5,
        max_size=25,
    ),
    seed=st.integers(0, 2**32),
)
async def test_every_committed_change_arrives_once_whatever_is_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int
) -> None:
    chance = random.Random(seed)
    committed: dict[tuple[int, str], tuple[Any, Any]] = {}
    state: dict[str, int] = {}
    seen: list[Change] = []
    async with InProcessCluster(tmp_path_factory.mktemp("watch"), servers=2) as cluster:
        job = durable(cluster)
        batch = 0
        await job.run(batch, {"values": {}})
        proxies = [await cluster.add_proxy() for _ in range(2)]
        addresses = [proxy.address for proxy in proxies]
        from queryable_state.client import QueryableStateClient

        async with QueryableStateClient(addresses=addresses, timeout_s=DEADLINE_S) as client:
            watch = client.watch("kept", "values", after_batch=0)
            await watch.open()
            for step in [*steps, "batch"]:
                if step in ("batch", "empty"):
                    batch += 1
                    written: dict[str, int | None] = {}
                    if step == "batch":
                        for key in chance.sample(KEYS, chance.randint(0, len(KEYS))):
                            written[key] = None if chance.random() < 0.2 else chance.randint(0, 3)
                        written["end"] = batch
                    for key, value in written.items():
                        before = state.pop(key, None)
                        if value is not None:
                            state[key] = value
                        if value is not None or before is not None:
                            committed[batch, key] = before, value
                    await job.run(batch, {"values": written})
                elif step == "kill":
                    await cluster.kill_server(chance.choice(cluster.servers))
                    await cluster.add_server()
                elif step == "proxy" and len(proxies) > 1:
                    await proxies.pop(chance.randrange(2)).aclose()
                elif step == "read" and any(each[1] == "end" for each in committed):
                    last = max(number for number, key in committed if key == "end")
                    await read_up_to(watch, last, seen)
                elif step == "reopen":
                    position = watch.batch
                    await watch.aclose()
                    # The new watch repeats the batch that was read in part.
                    assert position is not None
                    seen = [each for each in seen if each.batch <= position]
                    watch = client.watch("kept", "values", after_batch=position)
            await read_up_to(watch, batch, seen)
            rest = len(committed) - len(seen)
            seen += await next_changes(watch, rest)
            await watch.aclose()
    assert not [each for each in seen if each.kind is GAP]
    assert [each.batch for each in seen] == sorted(each.batch for each in seen)
    found = {(each.batch, each.key): (each.old, each.new) for each in seen if each.is_old_known}
    assert len(found) <= len(seen) == len(committed)
    assert found == {position: committed[position] for position in found}
    assert {(each.batch, each.key): each.new for each in seen} == {
        position: new for position, (_, new) in committed.items()
    }
