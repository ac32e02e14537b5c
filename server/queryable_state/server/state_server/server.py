"""A state server: its ports, its parts, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import uuid
from typing import TYPE_CHECKING, Self

import grpc.aio

from queryable_state.internal.v1 import backend_pb2_grpc, coordinator_pb2
from queryable_state.server.coordinator_client import CoordinatorClient
from queryable_state.server.lease_clock import lease_s
from queryable_state.server.load.load_reporter import LoadReporter
from queryable_state.server.metrics.collectors.owner_metrics import OwnerMetrics
from queryable_state.server.metrics.collectors.store_metrics import StoreMetrics
from queryable_state.server.metrics.collectors.user_metrics import UserMetricsCollector
from queryable_state.server.metrics.registry import MetricsRegistry
from queryable_state.server.security.signature_check import SignatureCheck
from queryable_state.server.security.signature_interceptors import SignatureInterceptor
from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
from queryable_state.server.serving.lame_duck import be_lame_duck
from queryable_state.server.serving.query_server import QueryServer, server_options
from queryable_state.server.state_server.backend_parts import BackendParts, StoreFolders
from queryable_state.server.state_server.base.lease import Lease
from queryable_state.server.state_server.base.thread_pool import ServerThreads
from queryable_state.server.state_server.heartbeats import Heartbeats
from queryable_state.server.state_server.lease_calls import CoordinatorLeaseCalls
from queryable_state.server.state_server.listeners import bind_ports
from queryable_state.server.state_server.owned_hot_keys import busy_states
from queryable_state.server.state_server.queries.state_reader import StateReader
from queryable_state.server.state_server.stores.store_table import StoreTable
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.state_server.base.server_directory import ServerAddresses
    from queryable_state.server.state_server.batches.staging import Staging
    from queryable_state.server.state_server.settings import StateServerSettings

_log = logging.getLogger(__name__)

# Longest time that health may still be SERVING after the lease has ended.
_LEASE_LOOK_S = 0.1


class StateServer:
    """Holds the state of one executor and serves it during `async with`.

    `async with` enters once the server is registered with the coordinator and listens. Its
    health is SERVING while its lease holds. It takes the ports of `replaced`, the addresses of
    the killed server before it, unless another process has them. Pass `shutdown` to stop it from
    outside; `wait_stopped` returns when it has drained, and raises the error that ended it.
    """

    def __init__(
        self,
        settings: StateServerSettings,
        *,
        shutdown: GracefulShutdown | None = None,
        watchdog: LoopWatchdog | None = None,
        replaced: ServerAddresses | None = None,
        clock: Callable[[], float] = lease_s,
    ) -> None:
        self.settings = settings
        self.server_id = f"{settings.executor_id}-{uuid.uuid4().hex[:12]}"
        self.lease = Lease(clock=clock)
        self.table = StoreTable(
            self.server_id,
            hot_keys=settings.hot_keys,
            history_bytes=settings.limits.watch_history_bytes,
        )
        self._threads = ServerThreads()
        self.engine = StateReader(
            self.table,
            self.lease,
            settings.limits,
            self._threads.background,
            server_id=self.server_id,
            default_deadline_ms=settings.default_deadline_ms,
        )
        self.shutdown = GracefulShutdown() if shutdown is None else shutdown
        self.metrics = MetricsRegistry()
        """The metrics of this server, which its metrics port serves."""
        self._watchdog = watchdog
        self._replaced = replaced
        self._killed = False
        self._main: asyncio.Task[None] | None = None
        self._addresses: ServerAddresses | None = None
        self._heartbeats: Heartbeats | None = None
        self._staging: Staging | None = None

    @property
    def addresses(self) -> ServerAddresses:
        """The addresses of the server, once it is entered."""
        if self._addresses is None:
            raise RuntimeError("the server has not started")
        return self._addresses

    @property
    def staged_bytes(self) -> int:
        """Bytes of attempts that are being prepared, or are sealed but not committed."""
        building = 0 if self._staging is None else self._staging.building_bytes
        return building + self.table.staged_bytes()

    async def renew_lease(self) -> None:
        """Renews the lease now instead of at the next heartbeat."""
        if self._heartbeats is not None:
            await self._heartbeats.renew()

    async def __aenter__(self) -> Self:
        listening = asyncio.get_running_loop().create_future()
        self._main = asyncio.create_task(
            self._serve(listening), name=f"state server {self.server_id}"
        )
        try:
            await asyncio.wait({self._main, listening}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if self._main.done():
            await self._main
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def wait_stopped(self) -> None:
        """Waits until the server has stopped: on request or by a failure."""
        if self._main is not None:
            await asyncio.shield(self._main)

    async def aclose(self) -> None:
        """Drains and stops; idempotent."""
        self.shutdown.stop()
        if self._main is not None:
            await self._main

    async def kill(self) -> None:
        """Stops without draining or deregistering, like a killed process. For tests."""
        self._killed = True
        self.shutdown.give_up()
        await self.aclose()

    async def _serve(self, listening: asyncio.Future[None]) -> None:
        settings = self.settings
        async with contextlib.AsyncExitStack() as stack:
            stores = StoreFolders(settings)
            stack.callback(stores.factory.remove_all)
            stack.push_async_callback(self._threads.aclose)
            connector = settings.tls.connector()
            coordinator = CoordinatorClient(
                settings.coordinator_address, settings.secret, connector=connector
            )
            stack.push_async_callback(coordinator.aclose)

            signatures = SignatureCheck(settings.secret)
            backend = grpc.aio.server(
                interceptors=(SignatureInterceptor(signatures),),
                options=server_options(settings.limits.message_bytes),
            )
            addresses, public, gate = bind_ports(
                settings,
                self.engine,
                coordinator,
                backend,
                stack,
                server_id=self.server_id,
                connector=connector,
                metrics=self.metrics,
                watchdog=self._watchdog,
                replaced=self._replaced,
            )
            signatures.audience = addresses.backend

            parts = BackendParts(
                settings,
                coordinator,
                self.table,
                self.lease,
                self._threads,
                stores,
                server_id=self.server_id,
                backend_address=addresses.backend,
                stop=self.shutdown.stopping,
            )
            stack.push_async_callback(parts.aclose)
            self._staging = parts.staging
            LoadReporter(
                self.server_id,
                coordinator.report_load,
                gate=gate,
                busy_states=lambda: busy_states(self.table.routes()),
                restores=parts.running_restores.progress,
                failed_stores=self.table.failed_stores,
            ).start(stack)
            self.metrics.add(OwnerMetrics(self.table, self.lease, self.engine, parts).collect)
            self.metrics.add(UserMetricsCollector(self.table).collect)
            self.metrics.add(StoreMetrics(self.table, self._threads.background).collect)
            backend_pb2_grpc.add_StateBackendServicer_to_server(parts.service, backend)
            calls = CoordinatorLeaseCalls(
                settings.coordinator_address, settings.secret, connector=connector
            )
            stack.callback(calls.close)
            heartbeats = self._heartbeats = Heartbeats(
                calls,
                self.lease,
                self.table,
                parts.owned_stores,
                coordinator_pb2.RegisterServerRequest(
                    server_id=self.server_id,
                    executor_id=settings.executor_id,
                    query_address=addresses.query,
                    frames=public[0].frames,
                    proxy_address=addresses.proxy,
                    backend_address=addresses.backend,
                    pid=os.getpid(),
                    log_file=str(settings.log_file),
                ),
                stop=self.shutdown.stopping,
                orphan_timeout_s=settings.orphan_timeout_s,
            )
            stack.push_async_callback(self._drain, backend, public)
            await backend.start()
            for server in public:
                await server.start()

            duck = asyncio.create_task(be_lame_duck(self.shutdown, public, settings.lame_duck_s))
            stack.callback(duck.cancel)
            await heartbeats.register_within(settings.coordinator_timeout_s)
            stack.push_async_callback(self._leave, coordinator)
            self._addresses = addresses
            self._set_health(public)
            listening.set_result(None)
            async with asyncio.TaskGroup() as loops:
                running = [
                    loops.create_task(heartbeats.run()),
                    loops.create_task(parts.compactor.run()),
                    loops.create_task(self._follow_lease(public)),
                ]
                await self.shutdown.stopping.wait()
                _log.info("stopping: draining calls in progress")
                for server in public:
                    server.end_health()
                for task in running:
                    task.cancel()
        _log.info("stopped")

    def _set_health(self, public: list[QueryServer]) -> None:
        for server in public:
            server.set_serving(self.lease.holds())

    async def _follow_lease(self, public: list[QueryServer]) -> None:
        """Sets health by the lease: without a lease, neither server nor proxy can answer."""
        while True:
            self._set_health(public)
            await asyncio.sleep(_LEASE_LOOK_S)

    async def _drain(self, backend: grpc.aio.Server, public: list[QueryServer]) -> None:
        """Closes the listeners once their calls have ended or the grace time is over."""
        drain_timeout_s = self.settings.drain_timeout_s
        await asyncio.gather(*(server.aclose(self.shutdown, drain_timeout_s) for server in public))
        async with self.shutdown.limited(drain_timeout_s):
            await backend.stop(drain_timeout_s)
        await backend.stop(None)

    async def _leave(self, coordinator: CoordinatorClient) -> None:
        """Deregisters from the coordinator, which otherwise waits for the end of the lease."""
        self.lease.end()
        self.table.wake_waiting()
        if self._killed:
            return
        try:
            await coordinator.deregister_server(
                coordinator_pb2.DeregisterServerRequest(server_id=self.server_id), timeout_s=2.0
            )
        except QueryableStateError as failure:
            _log.info("the coordinator was not reached to deregister: %s", failure)
