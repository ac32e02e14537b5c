"""TLS and tokens together, on proxies, owners and frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.security.access.sites import start_job, token, write_rules
from tests.waiting import eventually

from queryable_state.client import AuthenticationError, QueryableStateClient
from queryable_state.server.testing.cluster import InProcessCluster
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.security.authority import Authority


async def test_tokens_are_asked_for_behind_tls(tmp_path: Path, authority: Authority) -> None:
    settings, tls = authority.settings(), authority.client()
    async with InProcessCluster(
        tmp_path, servers=2, tls=settings, access=write_rules(tmp_path)
    ) as cluster:
        await start_job(cluster)
        host, port = host_and_port((await cluster.add_proxy()).address)
        async with QueryableStateClient(host, port, tls=tls, token=token("all")) as client:
            for number in range(100):
                state: Any = await client.get_kv_state("sensors", "last", f"sensor_{number}")
                assert state.value() == float(number)
            assert len([key async for key, _ in client.scan("sensors", "last")]) == 100
            await eventually(lambda: all(c.transport == "frames" for c in client.connections()))
        async with QueryableStateClient(host, port, tls=tls) as client:
            with pytest.raises(AuthenticationError, match="no token"):
                await client.get_kv_state("sensors", "last", "sensor_1")
