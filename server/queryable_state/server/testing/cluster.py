"""Cluster in the test's process: coordinator, state servers and jobs over real sockets."""

from __future__ import annotations

import dataclasses
import itertools
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from queryable_state.internal.v1 import backend_pb2_grpc
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.query.proxy.proxy_server import ProxyServer
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.server.state_server.server import StateServer
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.testing.coordinator import in_process_coordinator
from queryable_state.server.testing.job import InProcessJob, declare, windowed
from queryable_state.wire.security.signed_calls import BACKEND, CallSigner, signed_stub

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import grpc.aio

    from queryable_state.server.coordinator import JobConfig
    from queryable_state.server.testing.coordinator import InProcessCoordinator
    from queryable_state.server.testing.engine import InMemoryEngine
    from queryable_state.v1 import registration_pb2

__all__ = ["InProcessCluster", "InProcessJob", "corrupt", "declare", "windowed"]

_DEADLINE_S = 20.0


class InProcessCluster:
    """A coordinator on a stream engine in memory and its state servers.

        async with InProcessCluster(directory, servers=2) as cluster:
            job = cluster.job("sensors", declare("last", "string", "double"))
            await job.run(0, {"last": {"sensor_1": 71.5}})

    All servers listen on free ports of the loopback address and end with the
    `async with`; `directory` holds logs, store files, and the state of durable jobs:

        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        await job.run(0, {"last": {"sensor_1": 71.5}})
        await job.checkpoint()
        await cluster.kill_server(cluster.servers[0])
        await cluster.add_server()
        await job.run(1, {"last": {"sensor_2": 69.0}})

    To simulate a driver restart, make a cluster on the directory and the `engine` of an
    ended one.
    """

    def __init__(
        self,
        directory: Path,
        *,
        servers: int = 1,
        config: JobConfig | None = None,
        engine: InMemoryEngine | None = None,
        lease_ms: int = 1_500,
        reopen_after_ms: int = 200,
        frame_ports: str = "0",
        coordinator_host: str = "127.0.0.1",
        driver_metrics_ports: str = "",
        tls: TlsSettings | None = None,
        **settings: Any,
    ) -> None:
        """`config` is the default of all jobs; `settings` are those of the state servers.

        `frame_ports`: of servers and proxies; empty: none. `tls`: of every port, also of the
        coordinator and of proxies; None: clear text.
        """
        self._frame_ports, self._coordinator_host = frame_ports, coordinator_host
        self._driver_metrics_ports = driver_metrics_ports
        self._tls = tls or TlsSettings()
        self._connector = self._tls.connector()
        self._lease_ms = lease_ms
        self._reopen_after_ms = reopen_after_ms
        self._directory = directory
        self._count = servers
        self._config = config
        self._engine = engine
        self._settings = settings
        self._stack = AsyncExitStack()
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._coordinator: InProcessCoordinator | None = None
        self.servers: list[StateServer] = []
        """The running servers; a task of subtask i calls server i modulo their number first."""
        self.attempts: Iterator[int] = itertools.count(1)

    @property
    def coordinator(self) -> InProcessCoordinator:
        """The coordinator and its engine."""
        assert self._coordinator is not None
        return self._coordinator

    @property
    def call_options(self) -> dict[str, Any]:
        """Options of every internal call: its timeout."""
        return {"timeout": _DEADLINE_S}

    def job(
        self,
        name: str,
        *states: registration_pb2.StateRegistration,
        parallelism: int = 2,
        durable: bool = False,
        query_id: bytes | None = None,
    ) -> InProcessJob:
        """Starts a query whose operator has these states; with a known id, a new run of it."""
        location = str(self._directory / "jobs" / name) if durable else ""
        return InProcessJob(
            self, name, states, parallelism, checkpoint_location=location, query_id=query_id
        )

    async def add_server(self, *, executor_id: str = "") -> StateServer:
        """Starts a state server, on a new executor unless one is named."""
        executor_id = executor_id or f"executor-{next(self.attempts)}"
        fields: dict[str, Any] = {
            "coordinator_address": self.coordinator.address,
            "secret": self.coordinator.secret,
            "executor_id": executor_id,
            "directory": str(self._directory / executor_id),
            "ports": dataclasses.replace(
                ANY_PORTS,
                server_frame_ports=self._frame_ports,
                proxy_frame_ports=self._frame_ports,
            ),
            "drain_timeout_s": 0.2,
            "tls": self._tls,
        }
        server = StateServer(StateServerSettings(**(fields | self._settings)))
        await self._stack.enter_async_context(server)
        self.servers.append(server)
        self.coordinator.engine.set_executors(len(self.servers))
        return server

    async def stop_server(self, server: StateServer) -> None:
        """Stops a server, which releases its subtasks."""
        self.servers.remove(server)
        self.coordinator.engine.set_executors(len(self.servers))
        await server.aclose()

    async def kill_server(self, server: StateServer) -> None:
        """Ends a server and its executor as a crash does, without releasing its subtasks."""
        self.servers.remove(server)
        self.coordinator.engine.set_executors(len(self.servers))
        await server.kill()

    async def respawn_server(self, server: StateServer) -> StateServer:
        """Kills a server and starts another one for its executor, on the same directory."""
        await self.kill_server(server)
        return await self.add_server(executor_id=server.settings.executor_id)

    async def add_proxy(self, **settings: Any) -> ProxyServer:
        """Starts a standalone proxy."""
        fields: dict[str, Any] = {
            "coordinators": (self.coordinator.address,),
            "secret": self.coordinator.secret,
            "ports": "0",
            "frame_ports": self._frame_ports,
            "plain_grpc": self._settings.get("plain_grpc", False),
            "access": self._settings.get("access", AccessSettings()),
            "drain_timeout_s": 0.2,
            "tls": self._tls,
            "web": "off",
            "web_ports": "0",
        }
        proxy = ProxyServer(ProxySettings(**(fields | settings)))
        return await self._stack.enter_async_context(proxy)

    def backend(self, address: str) -> Any:
        """A stub of the `StateBackend` service at an address, which signs its calls."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._connector.channel(address, ())
            self._stack.push_async_callback(channel.close)
        return signed_stub(
            backend_pb2_grpc.StateBackendStub(channel),
            BACKEND,
            CallSigner(self.coordinator.secret, address),
        )

    async def __aenter__(self) -> Self:
        settings = CoordinatorSettings(
            strict=False,
            host=self._coordinator_host,
            ports="0",
            lease_ms=self._lease_ms,
            lease_margin_ms=200,
            stop_timeout_s=2.0,
            reopen_after_ms=self._reopen_after_ms,
            driver_metrics_ports=self._driver_metrics_ports,
            tls=self._tls,
            access=self._settings.get("access", AccessSettings()),
            insecure=self._settings.get("access", AccessSettings()).insecure,
        )
        self._coordinator = self._stack.enter_context(
            in_process_coordinator(settings=settings, engine=self._engine)
        )
        if self._config is not None:
            self._coordinator.coordinator.configure("", self._config)
        for _ in range(self._count):
            await self.add_server()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()


def corrupt(file: Path) -> None:
    """Flips a bit in the middle of a file, but not in its other hard links."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = file.with_name(f".{file.name}.damaged")
    damaged.write_bytes(data)
    damaged.replace(file)
