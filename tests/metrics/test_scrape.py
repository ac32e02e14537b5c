"""The metrics of state servers and proxies count what clients did."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.metrics.scraping import get, scraped
from tests.security.access.sites import token, write_rules
from tests.waiting import eventually

from queryable_state.client import QueryableStateClient
from queryable_state.client import UnknownKeyOrNamespaceError as UnknownKeyError
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from pathlib import Path

KEYS = 100
# No lease ends during a test, however busy the machine is.
LEASE_MS = 60_000


async def start(cluster: InProcessCluster) -> Any:
    job = cluster.job("sensors", declare("last", "string", "double"))
    await job.run(0, {"last": {f"sensor_{number}": float(number) for number in range(KEYS)}})
    return job


async def test_a_state_server_counts_queries_reads_and_batches(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, lease_ms=LEASE_MS) as cluster:
        job = await start(cluster)
        [server] = cluster.servers
        host, port = host_and_port(server.addresses.proxy)
        async with QueryableStateClient(host, port) as client:
            for number in range(KEYS):
                await client.get_kv_state("sensors", "last", f"sensor_{number}")
            with pytest.raises(UnknownKeyError):
                await client.get_kv_state("sensors", "last", "no such sensor")
            await eventually(lambda: all(c.transport == "frames" for c in client.connections()))
            connected = await scraped(server.addresses.metrics)
            assert connected.value("queryable_state_connections") >= 1
        async with grpc.aio.insecure_channel(server.addresses.query) as channel:
            stub: Any = query_pb2_grpc.QueryableStateStub(channel)
            request = query_pb2.GetKvStateRequest(
                job="sensors", state_name="last", key_json='"sensor_1"'
            )
            for _ in range(3):
                await stub.GetKvState(request)
        found = await scraped(server.addresses.metrics)
        labels = {"job_name": "sensors", "state": "last"}
        queries = "queryable_state_queries_total"
        assert found.value(queries, way="frame", read="POINT", **labels) >= 1
        assert found.value(queries, way="unary", port="query", **labels) == 3
        assert found.value("queryable_state_cache_misses_total", **labels) == KEYS + 1
        assert found.value("queryable_state_sent_bytes_total") > 0
        assert found.value("queryable_state_received_bytes_total") > 0
        assert found.value("queryable_state_query_duration_seconds_count", way="unary") == 3
        assert found.value("queryable_state_lease_held") == 1
        assert found.value("queryable_state_committed_batch", job_name="sensors") == 0
        assert found.value("queryable_state_subtasks", job_id=job.query_id.hex()) == 2
        calls = "queryable_state_backend_call_duration_seconds_count"
        assert found.value(calls, call="Commit") >= 1
        assert found.value("process_resident_memory_bytes") > 0


async def test_a_failed_read_is_counted_by_reason(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, lease_ms=LEASE_MS) as cluster:
        await start(cluster)
        [server] = cluster.servers
        for _ in range(2):
            answer = server.engine.answer(query_pb2.Query(state_id=123, keys=[b"\0\1key"]))
            assert answer is not None
        found = await scraped(server.addresses.metrics)
        assert found.value("queryable_state_read_failures_total", state="") == 2


async def test_a_proxy_counts_the_routes_of_queries(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, lease_ms=LEASE_MS, servers=2) as cluster:
        await start(cluster)
        proxy = await cluster.add_proxy(metrics_ports="0")
        host, port = host_and_port(proxy.address)
        async with QueryableStateClient(host, port) as client:
            await client.get_kv_state("sensors", "last", "sensor_1")
            await client.get_kv_states("sensors", "last", [f"sensor_{n}" for n in range(KEYS)])
        text = await asyncio.to_thread(proxy.metrics.text)
        assert b'queryable_state_proxied_queries_total{route="split"}' in text
        found = await scraped(proxy.metrics_address)
        routes = "queryable_state_proxied_queries_total"
        assert found.value(routes, route="relayed") + found.value(routes, route="split") >= 1
        assert found.value(routes, route="local") == 0
        assert found.value("queryable_state_queries_total", state="last", port="proxy") >= 1


async def test_scrapes_need_a_token_that_may_see_every_state(tmp_path: Path) -> None:
    async with InProcessCluster(
        tmp_path, lease_ms=LEASE_MS, access=write_rules(tmp_path), driver_metrics_ports="0"
    ) as cluster:
        server = cluster.servers[0].addresses.metrics
        for address in (server, cluster.coordinator.coordinator.metrics_address):
            url = f"http://{address}/metrics"
            assert (await asyncio.to_thread(get, url))[0] == 401
            status, text, _ = await asyncio.to_thread(get, url, token("lister"))
            assert status == 403
            assert "grant" in text
            status, text, _ = await asyncio.to_thread(get, url, token("all"))
            assert status == 200
            if address == server:
                assert 'queryable_state_denials_total{cause="no grant to see"} 1.0' in text


async def test_state_is_served_without_a_free_metrics_port(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with InProcessCluster(tmp_path, lease_ms=LEASE_MS) as cluster:
        taken = host_and_port(cluster.servers[0].addresses.metrics)[1]
        proxy = await cluster.add_proxy(metrics_ports=str(taken))
        assert proxy.metrics_address == ""
        assert f"--metrics-port is '{taken}'" in caplog.text
