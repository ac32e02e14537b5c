"""Watches of slow callers and of forgotten batches: told what is missing, holding up nobody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.client.watches.test_watches import GAP, PUT, next_changes
from tests.waiting import DEADLINE_S

from queryable_state.client import RetryLaterError
from queryable_state.server.config.limits import Limits
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob

LARGE = "x" * 20_000


def keyed(cluster: InProcessCluster) -> InProcessJob:
    return cluster.job("keyed", declare("values", "string", "string"))


async def test_a_forgotten_batch_is_a_gap(tmp_path: Path) -> None:
    limits = Limits(watch_history_bytes=100_000)
    async with InProcessCluster(tmp_path, limits=limits) as cluster:
        job = keyed(cluster)
        for batch in range(10):
            await job.run(batch, {"values": {"a": f"{batch} {LARGE}"}})
        async with (
            client_of(cluster.servers[0].addresses.proxy) as client,
            client.watch("keyed", "values", after_batch=0) as watch,
        ):
            [gap, first] = await next_changes(watch, 2)
            assert (gap.kind, gap.key, gap.first_missed_batch) == (GAP, None, 1)
            assert first.kind is PUT
            assert first.batch == gap.batch + 1
            rest = await next_changes(watch, 9 - first.batch)
            assert [each.batch for each in rest] == [*range(first.batch + 1, 10)]


@pytest.mark.slow
async def test_a_slow_caller_gets_a_gap_and_delays_no_batch(tmp_path: Path) -> None:
    limits = Limits(watch_history_bytes=200_000)
    async with InProcessCluster(tmp_path, servers=2, limits=limits) as cluster:
        job = keyed(cluster)
        await job.run(0, {})
        async with (
            client_of(cluster.servers[0].addresses.proxy) as client,
            client.watch("keyed", "values") as watch,
        ):
            # More than connections hold on the way.
            for batch in range(1, 120):
                await job.run(batch, {"values": {f"k{n}": f"{batch} {LARGE}" for n in range(10)}})
            seen: set[tuple[int, str]] = set()
            missed: set[int] = set()
            async with asyncio.timeout(DEADLINE_S):
                async for change in watch:
                    if change.kind is GAP:
                        assert change.first_missed_batch is not None
                        missed.update(range(change.first_missed_batch, change.batch + 1))
                        continue
                    assert (change.batch, change.key) not in seen
                    seen.add((change.batch, change.key))
                    if len([1 for batch, _ in seen if batch == 119]) == 10:
                        break
            assert missed
            whole = {(batch, f"k{n}") for batch in range(1, 120) for n in range(10)}
            assert {batch for batch, _ in whole - seen} <= missed


async def test_watches_are_limited(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, limits=Limits(watches=2)) as cluster:
        job = keyed(cluster)
        await job.run(0, {})
        async with client_of(cluster.servers[0].addresses.proxy, timeout_s=0.5) as client:
            first, second, third = (client.watch("keyed", "values") for _ in range(3))
            async with first, second:
                with pytest.raises(RetryLaterError, match=r"spark\.queryable_state\.watches"):
                    await third.open()
        async with (
            client_of(cluster.servers[0].addresses.proxy) as client,
            client.watch("keyed", "values"),
        ):
            pass
