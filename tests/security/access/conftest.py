"""A secured cluster, served by gRPC's core and by grpc.aio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.security.access.sites import RULES, start_job, write_rules

from queryable_state.server.security.access import access_control
from queryable_state.server.testing.cluster import InProcessCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessJob


@pytest.fixture(autouse=True)
def _changed_rules_are_seen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test is about how often a process looks at its access file."""
    monkeypatch.setattr(access_control, "_POLL_S", 0.02)


@pytest.fixture
def rules() -> str:
    """The content of the access file; tests override it."""
    return RULES


@pytest.fixture
def plain_grpc() -> bool:
    """True to serve gRPC with `grpc.aio`."""
    return False


@pytest.fixture
async def running(
    tmp_path: Path, rules: str, plain_grpc: bool
) -> AsyncIterator[tuple[InProcessCluster, InProcessJob]]:
    access = write_rules(tmp_path, rules)
    async with InProcessCluster(
        tmp_path, servers=2, access=access, plain_grpc=plain_grpc
    ) as cluster:
        yield cluster, await start_job(cluster)


@pytest.fixture
def cluster(running: tuple[InProcessCluster, InProcessJob]) -> InProcessCluster:
    """A secured cluster with the job `sensors`."""
    return running[0]


@pytest.fixture
def job(running: tuple[InProcessCluster, InProcessJob]) -> InProcessJob:
    """The job `sensors`, after batch 0."""
    return running[1]


@pytest.fixture
async def proxy(cluster: InProcessCluster) -> ProxyServer:
    """A proxy of its own: every key is a hop away."""
    return await cluster.add_proxy()
