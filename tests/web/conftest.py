"""A job, its proxy with a web port, and an HTTP client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """A job with a state of values, of 8 sensors, at batch 0."""
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {f"sensor_{n}": float(n) for n in range(8)}})
        yield cluster


@pytest.fixture
async def proxy(cluster: InProcessCluster) -> ProxyServer:
    """A proxy with a web port."""
    return await cluster.add_proxy(web="on")


@pytest.fixture
async def http(proxy: ProxyServer) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the web port."""
    async with aiohttp.ClientSession(
        proxy.web_address, timeout=aiohttp.ClientTimeout(total=20)
    ) as session:
        yield session
