"""One state server: its ports, its parts and the order of their lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Self

import grpc.aio

from queryable_state.internal.v1 import backend_pb2_grpc, coordinator_pb2
from queryable_state.server.coordinator_link import CoordinatorLink
from queryable_state.server.ports import PortSpec, bind, join_address
from queryable_state.server.query.local_router import LocalRouter
from queryable_state.server.query.location_table import LocationTable
from queryable_state.server.query.proxy_router import ProxyRouter
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.query_server import QueryServer, server_options
from queryable_state.server.state_server.backend_service import BackendService
from queryable_state.server.state_server.batch_opener import BatchOpener
from queryable_state.server.state_server.bulk_thread import BulkThread
from queryable_state.server.state_server.changelog_writer import ChangelogWriter
from queryable_state.server.state_server.driver_objects import DriverObjects
from queryable_state.server.state_server.engine import QueryEngine
from queryable_state.server.state_server.folder import Folder
from queryable_state.server.state_server.heartbeats import Heartbeats
from queryable_state.server.state_server.holdings import Holdings
from queryable_state.server.state_server.job_files import FileSystems
from queryable_state.server.state_server.lease import Lease
from queryable_state.server.state_server.local_copies import LocalCopies
from queryable_state.server.state_server.owner_table import OwnerTable
from queryable_state.server.state_server.refusals import SecretInterceptor
from queryable_state.server.state_server.restorer import Restorer
from queryable_state.server.state_server.server_directory import ServerAddresses, ServerDirectory
from queryable_state.server.state_server.snapshots import Snapshots
from queryable_state.server.state_server.staging import Staging
from queryable_state.server.state_server.store_factory import StoreFactory
from queryable_state.server.state_server.store_table import StoreTable
from queryable_state.server.state_server.thread_pool import ThreadPool
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.settings import StateServerSettings

_log = logging.getLogger(__name__)

# Changelogs written at once; they wait for disks and networks.
_STORING_THREADS = 8
# Files of restores and snapshots moved at once, of all jobs.
_TRANSFER_THREADS = 16
# Stores filled at once: that takes the interpreter.
_LOADING_THREADS = 2


class StateServer:
    """Holds the state of one executor and answers for it while `async with` lasts.

    Entered once it is registered with the coordinator and listens. `stop` may be given to end
    it from elsewhere; `wait_stopped` returns when it has drained, and raises what ended it.
    """

    def __init__(
        self,
        settings: StateServerSettings,
        *,
        stop: asyncio.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.server_id = f"{settings.executor_id}-{uuid.uuid4().hex[:12]}"
        self.lease = Lease(clock=clock)
        self.table = StoreTable(self.server_id)
        self.engine = QueryEngine(self.table, self.lease, settings.limits, server_id=self.server_id)
        self._stop = asyncio.Event() if stop is None else stop
        self._main: asyncio.Task[None] | None = None
        self._addresses: ServerAddresses | None = None
        self._heartbeats: Heartbeats | None = None
        self._staging: Staging | None = None

    @property
    def addresses(self) -> ServerAddresses:
        """Where the server listens, once entered."""
        if self._addresses is None:
            raise RuntimeError("the server has not started")
        return self._addresses

    @property
    def staged_bytes(self) -> int:
        """Bytes of attempts that prepare or have sealed, and are not committed."""
        building = 0 if self._staging is None else self._staging.building_bytes
        return building + self.table.staged_bytes()

    async def renew_lease(self) -> None:
        """Asks the coordinator for a new lease now instead of at the next turn."""
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
        """Waits for the end of the server, by `stop`, the coordinator or a failure."""
        if self._main is not None:
            await asyncio.shield(self._main)

    async def aclose(self) -> None:
        """Drains and ends; idempotent."""
        self._stop.set()
        if self._main is not None:
            await self._main

    async def _serve(self, listening: asyncio.Future[None]) -> None:
        settings, limits = self.settings, self.settings.limits
        directory = ServerDirectory(Path(settings.directory))
        async with contextlib.AsyncExitStack() as stack:
            factory = StoreFactory(settings.backend, directory.stores, settings.rocksdb)
            stack.callback(factory.remove_all)
            shutil.rmtree(directory.scratch, ignore_errors=True)
            copies = LocalCopies(directory.copies)
            bulk = BulkThread()
            stack.push_async_callback(bulk.aclose)
            storing, transfers, loading = (
                ThreadPool("storing", _STORING_THREADS),
                ThreadPool("transfer", _TRANSFER_THREADS),
                ThreadPool("loading", _LOADING_THREADS),
            )
            for threads in (storing, transfers, loading):
                stack.push_async_callback(threads.aclose)
            link = CoordinatorLink(settings.coordinator_address, settings.secret)
            stack.push_async_callback(link.aclose)

            backend = grpc.aio.server(
                interceptors=(SecretInterceptor(settings.secret),),
                options=server_options(limits.message_bytes),
            )
            addresses, public = self._bind(stack, link, backend)

            folder = Folder(self.table, bulk, chunk_records=settings.fold_chunk_records)
            owners = OwnerTable(
                link,
                self.table,
                self.lease,
                server_id=self.server_id,
                backend_address=addresses.backend,
            )
            file_systems = FileSystems(
                storing, transfers, DriverObjects(link, asyncio.get_running_loop())
            )
            opener = BatchOpener(
                link,
                self.table,
                self.lease,
                bulk,
                factory,
                Restorer(factory, file_systems, copies, loading, directory.scratch),
                file_systems,
                folder,
                server_id=self.server_id,
            )
            holdings = Holdings(self.table, bulk, folder, opener, owners, copies)
            stack.push_async_callback(holdings.aclose)
            stack.push_async_callback(owners.aclose)
            stack.push_async_callback(opener.aclose)
            staging = self._staging = Staging(
                self.table,
                self.lease,
                bulk,
                ChangelogWriter(storing),
                limits,
                server_id=self.server_id,
                strict=settings.strict,
            )
            snapshots = Snapshots(
                self.table,
                self.lease,
                bulk,
                folder,
                factory,
                file_systems,
                copies,
                loading,
                directory.scratch,
                server_id=self.server_id,
            )
            service = BackendService(
                owners, opener, staging, holdings, snapshots, bulk, stop=self._stop
            )
            backend_pb2_grpc.add_StateBackendServicer_to_server(service, backend)
            heartbeats = self._heartbeats = Heartbeats(
                link,
                self.lease,
                self.table,
                holdings,
                coordinator_pb2.RegisterServerRequest(
                    server_id=self.server_id,
                    executor_id=settings.executor_id,
                    query_address=addresses.query,
                    proxy_address=addresses.proxy,
                    backend_address=addresses.backend,
                    pid=os.getpid(),
                ),
                stop=self._stop,
                orphan_timeout_s=settings.orphan_timeout_s,
            )
            await backend.start()
            stack.push_async_callback(backend.stop, settings.drain_timeout_s)
            for server in public:
                await server.start()
                stack.push_async_callback(server.aclose, settings.drain_timeout_s)

            await heartbeats.register_within(settings.coordinator_timeout_s)
            stack.push_async_callback(self._leave, link)
            self._addresses = addresses
            listening.set_result(None)
            async with asyncio.TaskGroup() as loops:
                running = [loops.create_task(heartbeats.run()), loops.create_task(folder.run())]
                await self._stop.wait()
                _log.info("stopping: draining calls in flight")
                for task in running:
                    task.cancel()
        _log.info("stopped")

    def _bind(
        self, stack: contextlib.AsyncExitStack, link: CoordinatorLink, backend: grpc.aio.Server
    ) -> tuple[ServerAddresses, list[QueryServer]]:
        """Takes the three ports; returns where they are and the two public servers."""
        settings = self.settings
        locations = LocationTable(link)
        stack.push_async_callback(locations.aclose)
        local = LocalRouter(self.engine, locations)
        proxy = ProxyRouter(
            locations,
            server_id=self.server_id,
            engine=self.engine,
            default_deadline_ms=settings.default_deadline_ms,
        )
        listeners = []
        for router, role, ports, what in (
            (local, query_pb2.OWNER, settings.query_ports, "query port"),
            (proxy, query_pb2.PROXY, settings.proxy_ports, "proxy port"),
        ):
            stack.push_async_callback(router.aclose)
            server = QueryServer(
                router,
                ServiceInfo(
                    server_id=self.server_id,
                    role=role,
                    limits=settings.limits,
                    default_deadline_ms=settings.default_deadline_ms,
                ),
            )
            address = server.bind(
                PortSpec.parse(ports, what),
                settings.host,
                advertised_host=settings.advertised_host,
                what=what,
                strict=settings.ports_strict,
            )
            listeners.append((address, server))
        backend_port = bind(
            backend.add_insecure_port,
            PortSpec.parse(settings.backend_ports, "backend port"),
            settings.host,
            what="backend port",
            strict=settings.ports_strict,
        )
        (query_address, query_server), (proxy_address, proxy_server) = listeners
        addresses = ServerAddresses(
            server_id=self.server_id,
            pid=os.getpid(),
            query=query_address,
            proxy=proxy_address,
            backend=join_address(settings.advertised_host or settings.host, backend_port),
        )
        return addresses, [query_server, proxy_server]

    async def _leave(self, link: CoordinatorLink) -> None:
        """Tells the coordinator that the ranges are free; it learns so by the lease otherwise."""
        self.lease.end()
        try:
            await link.deregister_server(
                coordinator_pb2.DeregisterServerRequest(server_id=self.server_id), timeout_s=2.0
            )
        except QueryableStateError as failure:
            _log.info("not deregistered: %s", failure)
