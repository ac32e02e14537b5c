"""A cluster on RocksDB with a checkpoint, and the metrics of its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.metrics.scraping import scraped

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from tests.metrics.scraping import Scrape

# No lease ends during a test, however busy the machine is.
LEASE_MS = 60_000


@pytest.fixture
async def scrapes(tmp_path: Path) -> dict[str, Scrape]:
    """The scrapes of a state server, a proxy and the driver."""
    async with InProcessCluster(
        tmp_path, lease_ms=LEASE_MS, backend="rocksdb", driver_metrics_ports="0"
    ) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        await job.run(0, {"last": {"sensor_1": 1.0}})
        await job.checkpoint()
        proxy = await cluster.add_proxy(metrics_ports="0")
        return {
            "State server": await scraped(cluster.servers[0].addresses.metrics),
            "Proxy": await scraped(proxy.metrics_address),
            "Driver": await scraped(cluster.coordinator.coordinator.metrics_address),
        }
