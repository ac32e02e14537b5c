"""A cluster of two state servers with one job, over real sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of

from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob


@pytest.fixture
def frame_ports() -> str:
    """Look-ups go as frames; modules whose tests are for both ways override it."""
    return "0"


@pytest.fixture
async def cluster(tmp_path: Path, frame_ports: str) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(tmp_path, servers=2, frame_ports=frame_ports) as running:
        yield running


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    """A job named sensors, at batch 1, with a state of every kind."""
    started = cluster.job(
        "sensors",
        declare("last", "string", "double"),
        declare("seen", "string", "string", kind=registration_pb2.LIST),
        declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string"),
        declare("maximum", "string", "bigint", kind=registration_pb2.REDUCING),
        declare("mean", "string", "double", kind=registration_pb2.AGGREGATING),
    )
    await started.run(0, {})
    await started.run(
        1,
        {
            "last": {f"sensor_{number}": float(number) for number in range(100)},
            "seen": {"sensor_1": ["a", "b"]},
            "counts": {"sensor_1": {"x": 1, "y": 2}},
            "maximum": {"sensor_1": 99},
            "mean": {"sensor_1": 0.5},
        },
    )
    return started


@pytest.fixture
async def client(
    cluster: InProcessCluster, job: InProcessJob
) -> AsyncIterator[QueryableStateClient]:
    """A client of the first server's proxy."""
    async with client_of(cluster.servers[0].addresses.proxy) as opened:
        yield opened
