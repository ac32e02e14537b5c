"""A job with windows and timers, asked directly and over a proxy: heap by frames, RocksDB unary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.client.timed.stored import COUNTS, EVENTS, KEYS, MAXIMA, TIMERS, timers, windows

from queryable_state.server.testing.cluster import InProcessCluster, declare, windowed
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob


@pytest.fixture(params=["heap", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def frame_ports(backend: str) -> str:
    """Look-ups of the job on RocksDB go by unary calls: owners are tested on both backends."""
    return "0" if backend == "heap" else ""


@pytest.fixture
async def cluster(
    tmp_path: Path, frame_ports: str, backend: str
) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(
        tmp_path, servers=2, frame_ports=frame_ports, backend=backend
    ) as running:
        yield running


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    """The job windows, at batch 1, whose watermark is 1 ms."""
    kind = registration_pb2.StateKind
    started = cluster.job(
        "windows",
        windowed(declare("maxima")),
        windowed(declare("events", "string", "string", kind=kind.LIST)),
        windowed(declare("counts", kind=kind.MAP, map_key_type="string")),
        declare("last"),
        windowed(declare("operator.timers", kind=kind.TIMER)),
    )
    await started.run(0, {"last": dict.fromkeys(KEYS, 1)})
    await started.run(
        1,
        {
            "maxima": windows(MAXIMA),
            "events": windows(EVENTS),
            "counts": windows(COUNTS),
            "operator.timers": timers(TIMERS),
        },
    )
    return started


@pytest.fixture(params=[True, False], ids=["direct", "proxy"])
async def asker(
    request: pytest.FixtureRequest, cluster: InProcessCluster, job: InProcessJob
) -> AsyncIterator[QueryableStateClient]:
    proxy = cluster.servers[0].addresses.proxy
    async with client_of(proxy, direct=request.param) as client:
        yield client
