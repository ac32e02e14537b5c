"""Public server of the query service, with reflection, health and a frame port."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from queryable_state.server.public_grpc import public_grpc_server
from queryable_state.server.query.frames.frame_server import FrameServer
from queryable_state.server.query.frames.open_streams import OpenStreams
from queryable_state.server.query.service import QueryableStateService
from queryable_state.server.security.access.guarded_router import GuardedRouter
from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.security.server_tls import port_adder
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.health_service import SERVICE_NAME, HealthService
from queryable_state.server.serving.ports import EXCLUSIVE_PORT_OPTION, PortSpec, bind
from queryable_state.wire.frames.stream_hello import frame_endpoint

if TYPE_CHECKING:
    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.router import Router, ServiceInfo
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.server.security.server_tls import ServerTls
    from queryable_state.server.serving.advertised import Advertised
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.v1 import registration_pb2


_INTERNET = (socket.AF_INET, socket.AF_INET6)


def close_port(port: int) -> None:
    """Shuts the listener of a port down, then every connection to it.

    The calls on them fail as UNAVAILABLE, which clients send again. gRPC's core would fail those
    that arrive while it shuts down as CANCELLED, which they do not. Without `/proc` it does
    nothing.
    """
    found: list[tuple[bool, socket.socket]] = []
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        for entry in list(Path("/proc/self/fd").iterdir()):
            # It may be closed meanwhile.
            with contextlib.suppress(OSError):
                fd = int(entry.name)
                if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                    continue
                # A copy, because the object closes what it is made of.
                one = stack.enter_context(socket.socket(fileno=os.dup(fd)))
                if _is_of(one, port):
                    found.append((not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), one))
        # The listeners first: a client that loses its connection opens another at once.
        for _, one in sorted(found, key=lambda each: each[0]):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _is_of(one: socket.socket, port: int) -> bool:
    return (
        one.family in _INTERNET and one.type == socket.SOCK_STREAM and one.getsockname()[1] == port
    )


_SERVICE = "queryable_state.v1.QueryableState"

# Concurrent calls of one connection; its client queues the others.
_CALLS_PER_CONNECTION = 1024

# Calls that last until the client or the server ends; a shutdown does not wait for them.
_ENDLESS = (
    f"/{SERVICE_NAME}/Watch",
    f"/{_SERVICE}/WatchKvState",
    f"/{reflection.SERVICE_NAME}/ServerReflectionInfo",
)

# Time for the last message of a scan to reach its client.
_SCAN_END_S = 0.2

_log = logging.getLogger(__name__)


def server_options(message_bytes: int) -> list[tuple[str, int]]:
    """Channel options of every gRPC server; `message_bytes` bounds a received message."""
    return [
        # Detects clients that vanished, because their scans pin versions.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        EXCLUSIVE_PORT_OPTION,
        ("grpc.max_receive_message_length", message_bytes),
        # Closes connections that send no HTTP/2 settings.
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.max_send_message_length", -1),
        # With the defaults a server fails some of about a thousand waiting calls.
        ("grpc.server.max_pending_requests", 1_000_000),
        ("grpc.server.max_pending_requests_hard_limit", 1_000_000),
    ]


def public_options(limits: Limits) -> list[tuple[str, int]]:
    """Channel options of a public port."""
    return [
        *server_options(limits.frame_bytes),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_concurrent_streams", _CALLS_PER_CONNECTION),
    ]


class QueryServer:
    """Serves `QueryableState` from one router on a gRPC port and a frame port.

    Call `bind`, `start`, `set_serving` at each change, then `aclose`, which answers the calls
    that it has read within the drain time. The caller closes the router afterwards.
    """

    def __init__(
        self,
        router: Router,
        info: ServiceInfo,
        budgets: ClientBudgets | None = None,
        *,
        tls: ServerTls | None = None,
        gate: Gate | None = None,
        insecure: bool = False,
    ) -> None:
        """`budgets` are those of the process if it has several servers; `tls`: None serves in
        clear text; `gate` authenticates callers, None: everyone is answered; `insecure`: listens
        beyond the loopback address even so."""
        budgets = budgets or ClientBudgets(info.limits.held_bytes)
        if gate is not None:
            router = GuardedRouter(router, gate)
        self._server = public_grpc_server(
            public_options(info.limits),
            plain=info.plain_grpc,
            budgets=budgets,
            read_timeout_s=info.limits.read_timeout_s,
            endless=_ENDLESS,
            gate=gate,
        )
        self._tls = tls
        self._gate = gate
        self._insecure = insecure
        self._streams = OpenStreams(info)
        self._frames = FrameServer(router, info, self._streams, budgets, tls=tls)
        self.service = QueryableStateService(router, info, self._streams)
        """The service behind the ports, with the checks of the gate."""
        self.service.add_to(self._server)
        self._serving = self._left = False
        self._what = self._address = ""
        self.traffic = info.traffic
        """Counters of the port."""
        self._port = 0
        self._health = HealthService((_SERVICE, SERVICE_NAME, reflection.SERVICE_NAME))
        # Generated code accepts any server with the two methods that it calls.
        server: Any = self._server
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflected = reflection.aio.ReflectionServicer(
            (_SERVICE, SERVICE_NAME, reflection.SERVICE_NAME)
        )
        add_reflection: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
        add_reflection(reflected, server)

    def bind(
        self,
        spec: PortSpec,
        host: str,
        *,
        frames: PortSpec | None,
        advertised: Advertised,
        what: str,
    ) -> int:
        """Binds the ports; returns the port, while `address` is what clients use.

        Raises `InvalidRequestError` for a host that other machines reach, unless the server has
        TLS and a gate, or is insecure. Without `frames` it has no frame port. The frame port takes
        the place in its setting that the port has in `spec`.
        """
        check_listener(
            host,
            what=what,
            encrypted=self._tls is not None,
            authenticated=self._gate is not None,
            insecure=self._insecure,
        )
        port = self._port = bind(port_adder(self._server, self._tls), spec, host, what=what)
        if frames is not None:
            frame_port = bind(
                self._frames.add_port,
                frames.beginning_at(spec.index(port)),
                host,
                what=f"frame port of the {what}",
            )
            self.frames.CopyFrom(frame_endpoint(advertised.frame_port or frame_port))
        self._what, self._address = what, advertised.address(host, port)
        return port

    @property
    def address(self) -> str:
        """HOST:PORT at which clients reach the server; empty before `bind`."""
        return self._address

    @property
    def frames(self) -> registration_pb2.FrameEndpoint:
        """Where it takes look-ups as frames."""
        return self.service.description.frames

    async def start(self) -> None:
        """Starts to answer; health is NOT_SERVING until `set_serving`."""
        await self._frames.start()
        await self._server.start()

    @property
    def is_serving(self) -> bool:
        """True while the health is SERVING."""
        return self._serving and not self._left

    def set_serving(self, serving: bool) -> None:
        """Sets the health status; it stays NOT_SERVING once the server leaves."""
        if serving == self._serving or self._left:
            return
        self._serving = serving
        self._health.set(serving)
        if serving:
            _log.info("%s at %s is SERVING", self._what, self._address)
        else:
            _log.warning("%s at %s is NOT_SERVING", self._what, self._address)

    def leave(self) -> None:
        """Sets NOT_SERVING for good and asks streams to reconnect elsewhere; still answers."""
        self.end_health()
        self._streams.send_away()

    async def aclose(self, shutdown: GracefulShutdown, drain_timeout_s: float = 0) -> None:
        """Answers the calls it has read within the drain time, then closes the ports. Idempotent.

        Calls are answered until the end, because gRPC's core would cancel those that arrive after
        the start of its own shutdown.
        """
        self.end_health()
        self._frames.close_port()
        # A client that waits for minutes or reads nothing must not block the shutdown.
        async with shutdown.limited(drain_timeout_s):
            await asyncio.gather(self._streams.drain(), self._server.answered())
        self._streams.end_scans()
        async with shutdown.limited(_SCAN_END_S):
            await self._server.answered()
        await self._frames.aclose()
        port, self._port = self._port, 0
        if port:
            close_port(port)
        await self._server.stop(0)

    def end_health(self) -> None:
        """Sets NOT_SERVING for good."""
        self._left = True
        self._health.set(False)
