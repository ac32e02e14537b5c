"""Clients that retry UNAVAILABLE, as gRPC's documentation advises, while a proxy ends."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.grpc_retries import SERVICE_CONFIG
from tests.query.proxy.commands import started_proxy
from tests.query.proxy.under_way import Asking
from tests.waiting import DEADLINE_S

from queryable_state.v1 import query_pb2, query_pb2_grpc

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--plain-grpc",)], ids=["grpc core", "grpc.aio"])
async def test_a_client_that_retries_unavailable_sees_no_failed_call(
    cluster: InProcessCluster, job: InProcessJob, options: tuple[str, ...]
) -> None:
    """It asks a proxy until its end: no call fails with a code that clients do not retry."""
    async with started_proxy(cluster) as stays:
        for _ in range(3):
            async with (
                started_proxy(cluster, "--lame-duck", "0.2", *options) as leaves,
                grpc.aio.insecure_channel(
                    f"ipv4:{stays.address},{leaves.address}",
                    options=[("grpc.service_config", SERVICE_CONFIG)],
                ) as channel,
            ):
                stub: Any = query_pb2_grpc.QueryableStateStub(channel)
                request = query_pb2.GetKvStateRequest(
                    job="sensors", state_name="last", key_json='"sensor_7"'
                )

                async def ask(stub: Any = stub, request: Any = request) -> None:
                    response = await stub.GetKvState(request, timeout=DEADLINE_S)
                    assert response.value_json == "7.0"

                await channel.channel_ready()
                async with Asking(ask, tasks=32).under_way() as asking:
                    await asking.more(200)
                    leaves.process.send_signal(signal.SIGTERM)
                    async with asyncio.timeout(DEADLINE_S):
                        assert await leaves.process.wait() == 0
                    await asking.more(200)
