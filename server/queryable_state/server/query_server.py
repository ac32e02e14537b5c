"""One public server: the query service with reflection and health, and its frame port."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from queryable_state.server.grpc_core import GrpcServer
from queryable_state.server.ports import EXCLUSIVE_PORT_OPTION, PortSpec, bind, join_address
from queryable_state.server.query.frame_server import FrameServer
from queryable_state.server.query.open_streams import OpenStreams
from queryable_state.server.query.service import QueryableStateService

if TYPE_CHECKING:
    from queryable_state.server.query.router import Router, ServiceInfo
    from queryable_state.server.settings import Limits

_SERVICE = "queryable_state.v1.QueryableState"


def server_options(limits: Limits) -> list[tuple[str, int]]:
    """Channel options of every server of ours."""
    return [
        # Who is gone without a word holds no scan's version for long.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        EXCLUSIVE_PORT_OPTION,
        ("grpc.max_receive_message_length", limits.frame_bytes),
        ("grpc.max_send_message_length", -1),
        # With the defaults a server fails some of about a thousand calls that wait.
        ("grpc.server.max_pending_requests", 1_000_000),
        ("grpc.server.max_pending_requests_hard_limit", 1_000_000),
    ]


class QueryServer:
    """Serves `QueryableState` from one router on a port of its own, its streams on another, too.

    `bind`, then `start`, then `aclose`, which answers what it has read before it ends, as far as
    the time to drain allows. The router stays the caller's to close, after that.
    """

    def __init__(self, router: Router, info: ServiceInfo) -> None:
        self._server = GrpcServer(server_options(info.limits))
        self._streams = OpenStreams(info)
        self._frames = FrameServer(router, info, self._streams)
        self._service = QueryableStateService(router, info, self._streams)
        self._service.add_to(self._server)
        self._health = health.aio.HealthServicer()
        # Generated code takes any server that has the two methods it calls.
        server: Any = self._server
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflected = reflection.aio.ReflectionServicer(
            (_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        )
        add_reflection: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
        add_reflection(reflected, server)

    def bind(
        self,
        spec: PortSpec,
        host: str,
        *,
        frames: PortSpec | None,
        advertised_host: str,
        what: str,
    ) -> str:
        """Takes the ports; returns the HOST:PORT others reach it by.

        Without `frames` streams stay on gRPC.
        """
        port = bind(self._server.add_insecure_port, spec, host, what=what)
        if frames is not None:
            self._service.frame_port = bind(
                self._frames.add_port, frames, host, what=f"frame port of the {what}"
            )
        return join_address(advertised_host or host, port)

    async def start(self) -> None:
        """Serves from here on."""
        await self._frames.start()
        await self._server.start()
        for name in ("", _SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def aclose(self, drain_timeout_s: float = 0) -> None:
        """Says it is not serving, ends streams once they answered, then stops. Idempotent."""
        await self._health.enter_graceful_shutdown()
        # Who waits for minutes, or reads nothing, must not keep the process from ending.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_timeout_s):
                await self._streams.drain()
        await self._frames.aclose()
        await self._server.stop(drain_timeout_s)
