"""The health of a server as its clients see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.waiting import DEADLINE_S

if TYPE_CHECKING:
    import grpc.aio

SERVICE = "queryable_state.v1.QueryableState"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Watched:
    """A server's health, as a balancer that checks and one that watches see it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = cast("Any", health_pb2_grpc.HealthStub(channel))
        self._watches: Any = [
            self._stub.Watch(health_pb2.HealthCheckRequest(service=name)) for name in ("", SERVICE)
        ]

    async def until(self, status: int) -> None:
        """Both watches say it in time, and so do checks then."""
        async with asyncio.timeout(DEADLINE_S):
            for watch in self._watches:
                while (await watch.read()).status != status:
                    pass
        for name in ("", SERVICE):
            request = health_pb2.HealthCheckRequest(service=name)
            assert (await self._stub.Check(request, timeout=DEADLINE_S)).status == status
