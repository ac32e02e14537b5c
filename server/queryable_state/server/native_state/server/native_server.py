"""Process that serves the state that Spark keeps itself, from the checkpoint of its query."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Self

from queryable_state.server.checkpoint.file_systems.storage import is_local
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint_server.public_ports import PublicPorts
from queryable_state.server.checkpoint_server.state_folder import StateFolder
from queryable_state.server.checkpoint_server.stoppable_load import unless_stopped
from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
from queryable_state.server.native_state.files.query_name import query_name
from queryable_state.server.native_state.server.any_partition import EveryServer
from queryable_state.server.native_state.server.first_load import FirstLoad
from queryable_state.server.native_state.server.follower import Follower
from queryable_state.server.native_state.server.native_catalog import NativeCatalog
from queryable_state.server.native_state.server.native_reader import NativeReader
from queryable_state.server.native_state.server.native_threads import NativeThreads
from queryable_state.server.native_state.server.owners import Owners
from queryable_state.server.native_state.server.served_query import ServedQuery
from queryable_state.server.native_state.server.shared_router import SharedRouter
from queryable_state.server.native_state.server.states_reader import StatesReader
from queryable_state.server.query.local_router import LocalRouter
from queryable_state.server.query.proxy.location_table import LocationTable
from queryable_state.server.query.proxy.proxy_router import ProxyRouter
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.server.serving.advertised import Advertised
from queryable_state.server.serving.ports import PortSpec
from queryable_state.server.serving.public_server import PublicServer
from queryable_state.server.state_server.base.lease import Lease
from queryable_state.server.state_server.queries.state_reader import StateReader
from queryable_state.server.state_server.stores.store_table import StoreTable
from queryable_state.server.web.api.job_control import NoOperations
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.security.signed_calls import CallSigner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.query.router import Router
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings

_LOCAL_POLL_S = 0.02
_REMOTE_POLL_S = 0.25
_REMOTE_CHECK_S = 5.0


class NativeServer(PublicServer):
    """Answers `QueryableState` from the checkpoint of any Structured Streaming query.

    Entering loads the newest committed batch, unless `lazy`, and binds the ports; it raises if the
    checkpoint is damaged or has no state. With `follow` each further batch is served once Spark
    has committed it. Nothing is ever written below the checkpoint.
    """

    def __init__(
        self,
        settings: CheckpointServerSettings,
        *,
        shutdown: GracefulShutdown | None = None,
        watchdog: LoopWatchdog | None = None,
    ) -> None:
        super().__init__(shutdown, watchdog)
        self.settings = settings
        self.name = settings.name or query_name(settings.spark_checkpoint)
        """The name of the query for clients."""
        self._address: str | None = None
        self._served: ServedQuery | None = None

    @property
    def address(self) -> str:
        """HOST:PORT at which clients reach the server, once entered."""
        if self._address is None:
            raise InvalidRequestError("this server has not started")
        return self._address

    @property
    def served(self) -> ServedQuery:
        """The served query, once entered."""
        if self._served is None:
            raise InvalidRequestError("this server has not started")
        return self._served

    async def __aenter__(self) -> Self:
        settings, uri = self.settings, self.settings.spark_checkpoint
        # Before the state is loaded, which may take long.
        tls, owners = ServerTls.of(settings.tls), Owners(settings.servers, _own(settings))
        async with contextlib.AsyncExitStack() as stack:
            folder = await asyncio.to_thread(StateFolder, settings.directory)
            stack.push_async_callback(asyncio.to_thread, folder.remove)
            threads = NativeThreads(settings.transfer_threads, is_local=is_local(uri))
            stack.push_async_callback(threads.aclose)
            storage = await asyncio.to_thread(storage_of, uri, settings.storage_options)
            checkpoint = QueryCheckpoint(storage, uri)
            first = FirstLoad(checkpoint, threads.following, follows=settings.follow)
            query_id = await unless_stopped(first.query_id(), self.shutdown, uri)
            states = StatesReader(
                checkpoint,
                query_id,
                self.name,
                _new_paths(folder.path),
                backend=settings.backend,
                kept_batches=settings.kept_batches,
            )
            table, lease = StoreTable(owners.server_id), Lease()
            served = ServedQuery(
                uri,
                query_id,
                table,
                lease,
                owners,
                threads,
                follows=settings.follow,
                kept_batches=settings.kept_batches,
            )
            stack.push_async_callback(served.aclose)
            await unless_stopped(first.load(served, states, lazy=settings.lazy), self.shutdown, uri)
            follower = self._follower(stack, served, checkpoint, states, threads)
            reader = self._reader(served, table, lease, threads, owners)
            catalog = NativeCatalog(served, self.name, owners, follower)
            ports = PublicPorts(
                self._router(stack, served, reader, catalog, owners),
                settings,
                stack,
                self.shutdown,
                server_id=owners.server_id,
                tls=tls,
                find_state=table.registration,
                watchdog=self._watchdog,
                secret=settings.secret if owners.are_several else "",
            )
            ports.bind()
            owners.started(ports.address, ports.frames)
            catalog.address, catalog.frames = ports.address, ports.frames
            await ports.start(NoOperations(catalog.list_jobs))
            self._address, self.web_address = ports.address, ports.web_address
            self._served = served
            self._stack = stack.pop_all()
        return self

    def _follower(
        self,
        stack: contextlib.AsyncExitStack,
        served: ServedQuery,
        checkpoint: QueryCheckpoint,
        states: StatesReader,
        threads: NativeThreads,
    ) -> Follower | None:
        """Follows the query until `stack` ends; None if the server stays at its batch."""
        if not self.settings.follow:
            return None
        on_disk = is_local(served.uri)
        poll_s = _LOCAL_POLL_S if on_disk else _REMOTE_POLL_S
        follower = Follower(
            served,
            checkpoint,
            threads.following,
            states.read,
            states.operators,
            poll_s=self.settings.poll_interval_ms / 1000 or poll_s,
            check_s=0.0 if on_disk else _REMOTE_CHECK_S,
        )
        following = asyncio.create_task(follower.run())
        stack.push_async_callback(asyncio.wait, [following])
        stack.callback(following.cancel)
        return follower

    def _reader(
        self,
        served: ServedQuery,
        table: StoreTable,
        lease: Lease,
        threads: NativeThreads,
        owners: Owners,
    ) -> NativeReader:
        """Reads the partitions that this server has."""
        deadline_ms = self.settings.default_deadline_ms
        own = StateReader(
            table,
            lease,
            self.settings.limits,
            threads.background,
            server_id=owners.server_id,
            default_deadline_ms=deadline_ms,
        )
        return NativeReader(served, own, default_deadline_ms=deadline_ms)

    def _router(
        self,
        stack: contextlib.AsyncExitStack,
        served: ServedQuery,
        reader: NativeReader,
        catalog: NativeCatalog,
        owners: Owners,
    ) -> Router:
        """Routes to this process alone, or to all servers that share the partitions."""
        settings, own = self.settings, LocalRouter(reader, catalog)
        if not owners.are_several:
            return own
        locations = LocationTable(catalog)
        stack.push_async_callback(locations.aclose)
        others = ProxyRouter(
            locations,
            server_id=owners.server_id,
            engine=reader,
            signer=CallSigner(settings.secret) if settings.secret else None,
            connector=settings.tls.connector(),
            default_deadline_ms=settings.default_deadline_ms,
        )
        every_server = EveryServer(
            others.answers, owners, default_deadline_ms=settings.default_deadline_ms
        )
        router = SharedRouter(own, others, lambda: served.unplaced, every_server)
        stack.push_async_callback(router.aclose)
        return router


def _new_paths(directory: Path) -> Callable[[], Path]:
    """Makes paths of directories that do not exist yet."""
    numbers = itertools.count()
    return lambda: directory / str(next(numbers))


def _own(settings: CheckpointServerSettings) -> str:
    """The address of this server, if its settings say so; else empty."""
    ports = PortSpec.parse(settings.ports, "--port").ports
    advertised = Advertised.parse(
        settings.advertised, "--advertise", settings.advertised_frame_port
    )
    port = advertised.port or (ports[0] if len(ports) == 1 else 0)
    return advertised.address(settings.host, port) if port else ""
