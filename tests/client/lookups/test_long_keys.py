"""Keys that are many and long together are asked for in requests a server takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from queryable_state.client import QueryableStateClient
from queryable_state.server.config.limits import Limits
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [f"{number}:{'x' * 3000}" for number in range(120)]


@pytest.mark.parametrize("direct", [True, False])
async def test_a_batch_longer_than_a_request_is_divided(tmp_path: Path, direct: bool) -> None:
    limits = Limits(request_bytes=50_000)
    async with InProcessCluster(tmp_path, servers=2, limits=limits) as cluster:
        job = cluster.job("sensors", declare("last"))
        await job.run(0, {"last": {key: at for at, key in enumerate(KEYS)}})
        proxy = await cluster.add_proxy(limits=limits)
        host, _, port = proxy.address.rpartition(":")
        async with QueryableStateClient(host, int(port), timeout_s=20, direct=direct) as client:
            found = await client.multi_get("sensors", "last", KEYS)
            assert [each.get().value() for each in found] == list(range(len(KEYS)))
            states = await asyncio.gather(
                *(client.get_kv_state("sensors", "last", key) for key in KEYS)
            )
            assert [state.value() for state in states] == list(range(len(KEYS)))
