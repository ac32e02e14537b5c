"""A secured cluster, served by gRPC's core and by grpc.aio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.security.access.sites import RULES, start_job, write_rules

from queryable_state.server.testing.cluster import InProcessCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer


@pytest.fixture
def rules() -> str:
    """The content of the access file; tests override it."""
    return RULES


@pytest.fixture
def plain_grpc() -> bool:
    """True to serve gRPC with `grpc.aio`."""
    return False


@pytest.fixture
async def cluster(tmp_path: Path, rules: str, plain_grpc: bool) -> AsyncIterator[InProcessCluster]:
    access = write_rules(tmp_path, rules)
    async with InProcessCluster(
        tmp_path, servers=2, access=access, plain_grpc=plain_grpc
    ) as running:
        await start_job(running)
        yield running


@pytest.fixture
async def proxy(cluster: InProcessCluster) -> ProxyServer:
    """A proxy of its own: every key is a hop away."""
    return await cluster.add_proxy()
