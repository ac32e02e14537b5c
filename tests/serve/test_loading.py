"""A checkpoint server that has not loaded its state yet."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import QueryableStateClient
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.serve.conftest import Ended
    from tests.state_server.gated_files import Gate

    from queryable_state.server.checkpoint_server.server import CheckpointServer

    Serve = Callable[..., CheckpointServer]


async def test_a_server_says_how_far_it_is_while_it_loads(
    ended: Ended, serving: Serve, gate: Gate
) -> None:
    """Reads are refused for now, and its port is not ready; then the same port answers."""
    [operator] = [each.name for each in ended.savepoint.iterdir() if each.name.startswith("op")]
    gate.close_for(f"/{operator}/")
    server = serving(f"gated://{ended.savepoint}")
    entering = asyncio.create_task(server.__aenter__())
    try:
        await eventually(lambda: bool(server.progress()))
        host, port = host_and_port(server.address)
        async with (
            QueryableStateClient(host, port, timeout_s=DEADLINE_S) as client,
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            [job] = await client.list_jobs()
            assert job.name == "sensors"
            described = await client.describe_job("sensors")
            assert described.restores
            assert all(each.bytes > each.bytes_done == 0 for each in described.restores)
            assert all(each.started_at_ms for each in described.restores)
            assert not any(owner.open for each in described.operators for owner in each.owners)
            with pytest.raises(RetryLaterError, match=r"is still being loaded \(0 %\)"):
                await client.get_kv_state("sensors", "last", "sensor_1", timeout_s=0.5)
            health: Any = health_pb2_grpc.HealthStub(channel)
            status = (await health.Check(health_pb2.HealthCheckRequest())).status
            assert status == health_pb2.HealthCheckResponse.NOT_SERVING
            gate.open()
            assert (await client.get_kv_state("sensors", "last", "sensor_1")).value() == 71.5
            assert not (await client.describe_job("sensors")).restores
    finally:
        gate.open()
        await entering
        await server.aclose()
