"""gRPC health service: one status for the server and all of its services."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.serving.error_boundary import Context

SERVICE_NAME = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_MOST_WATCHERS = 1024
_MOST_WATCHERS_OF_A_PEER = 16

_Status = health_pb2.HealthCheckResponse


class HealthService(health_pb2_grpc.HealthServicer):
    """Answers `Check` and `Watch`; NOT_SERVING until `set`.

    The service of grpcio-health-checking writes to watchers under a lock that `set` needs, so
    that a watcher that reads nothing would block `set`.
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset(("", *services))
        self._serving = False
        self._changed = asyncio.Event()
        self._watchers: Counter[str | bytes] = Counter()
        """Running calls of `Watch`, by peer."""

    def set(self, serving: bool) -> None:
        """Sets the status and notifies every watcher."""
        self._serving = serving
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        """Returns the current status; NOT_FOUND for an unknown service."""
        if request.service not in self._services:
            await context.abort(
                grpc.StatusCode.NOT_FOUND, f"this server has no service {request.service!r}"
            )
        return health_pb2.HealthCheckResponse(status=self._status())

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        """Sends the current status and each change; it may skip a status that changes quickly.

        RESOURCE_EXHAUSTED above 16 watches of a connection or 1,024 of the server: callers need no
        token.
        """
        # A method of the contexts of grpc.aio, an attribute of those of `grpc_core`.
        given: Any = context.peer
        peer = given() if callable(given) else given
        if (
            self._watchers[peer] >= _MOST_WATCHERS_OF_A_PEER
            or self._watchers.total() >= _MOST_WATCHERS
        ):
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"a connection may have {_MOST_WATCHERS_OF_A_PEER} health watches and a server "
                f"{_MOST_WATCHERS}: share one watch",
            )
        self._watchers[peer] += 1
        try:
            await self._watch(request, context)
        finally:
            self._watchers[peer] -= 1
            if not self._watchers[peer]:
                del self._watchers[peer]

    async def _watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        sent = None
        while True:
            changed = self._changed
            known = request.service in self._services
            status = self._status() if known else _Status.SERVICE_UNKNOWN
            if status != sent:
                await context.write(health_pb2.HealthCheckResponse(status=status))
                sent = status
            else:
                await changed.wait()

    def _status(self) -> Literal[1, 2]:
        return _Status.SERVING if self._serving else _Status.NOT_SERVING
