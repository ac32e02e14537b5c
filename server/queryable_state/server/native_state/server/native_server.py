"""Process that serves the state that Spark keeps itself, from the checkpoint of its query."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from typing import TYPE_CHECKING, Self

from queryable_state.server.checkpoint.file_systems.storage import is_local
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint_server.public_ports import PublicPorts
from queryable_state.server.checkpoint_server.state_folder import StateFolder
from queryable_state.server.checkpoint_server.stoppable_load import unless_stopped
from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
from queryable_state.server.native_state.files.query_name import query_name
from queryable_state.server.native_state.server.batch_facts import BatchFacts
from queryable_state.server.native_state.server.follower import Follower
from queryable_state.server.native_state.server.native_catalog import NativeCatalog
from queryable_state.server.native_state.server.native_reader import NativeReader
from queryable_state.server.native_state.server.owners import Owners
from queryable_state.server.native_state.server.served_query import ServedQuery
from queryable_state.server.native_state.server.shared_router import SharedRouter
from queryable_state.server.native_state.server.states_reader import StatesReader
from queryable_state.server.native_state.store.batch_times import BatchTimes
from queryable_state.server.query.proxy.location_table import LocationTable
from queryable_state.server.query.proxy.proxy_router import ProxyRouter
from queryable_state.server.query.routers.local_router import LocalRouter
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.server.serving.advertised import Advertised
from queryable_state.server.serving.ports import PortSpec
from queryable_state.server.serving.public_server import PublicServer
from queryable_state.server.state_server.base.background_thread import BackgroundThread
from queryable_state.server.state_server.base.lease import Lease
from queryable_state.server.state_server.base.thread_pool import ThreadPool
from queryable_state.server.state_server.queries.state_reader import StateReader
from queryable_state.server.state_server.stores.store_table import StoreTable
from queryable_state.server.web.api.job_control import NoOperations
from queryable_state.wire.errors import CheckpointError, InvalidRequestError, VersionGoneError
from queryable_state.wire.security.signed_calls import CallSigner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.query.router import Router
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings

_log = logging.getLogger(__name__)

_LOCAL_POLL_S = 0.02
_REMOTE_POLL_S = 0.5
_REMOTE_CHECK_S = 5.0
# Each batch takes a request for each store of each partition.
_REMOTE_THREADS = 32
_PROGRESS_S = 5.0
_FIRST_BATCH_POLL_S = 0.2
# The job may remove the newest batch that was listed before it is read.
_STARTS = 5


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
        settings = self.settings
        uri = settings.spark_checkpoint
        # Before the state is loaded, which may take long.
        tls, owners = ServerTls.of(settings.tls), Owners(settings.servers, _own(settings))
        async with contextlib.AsyncExitStack() as stack:
            folder = await asyncio.to_thread(StateFolder, settings.directory)
            stack.push_async_callback(asyncio.to_thread, folder.remove)
            storage = await asyncio.to_thread(storage_of, uri, settings.storage_options)
            checkpoint = QueryCheckpoint(storage, uri)
            background = BackgroundThread()
            stack.push_async_callback(background.aclose)
            loading = ThreadPool("loading", settings.transfer_threads)
            threads = ThreadPool(
                "following",
                settings.transfer_threads
                if is_local(uri)
                else max(settings.transfer_threads, _REMOTE_THREADS),
            )
            for pool in (loading, threads):
                stack.push_async_callback(pool.aclose)
            query_id = await threads.run(checkpoint.query_id)
            table, lease, batch_times = StoreTable(owners.server_id), Lease(), BatchTimes()
            served = ServedQuery(
                uri,
                query_id,
                table,
                lease,
                owners,
                background,
                loading,
                threads,
                batch_times,
                follows=settings.follow,
                kept_batches=settings.kept_batches,
            )
            stack.push_async_callback(served.aclose)
            states = StatesReader(
                checkpoint,
                query_id,
                self.name,
                _new_paths(folder.path),
                backend=settings.backend,
                kept_batches=settings.kept_batches,
            )
            await unless_stopped(
                self._load(served, checkpoint, states, threads), self.shutdown, uri
            )
            follower = None
            if settings.follow:
                follower = Follower(
                    served,
                    checkpoint,
                    threads,
                    states.read,
                    states.operators,
                    poll_s=settings.poll_interval_ms / 1000
                    or (_LOCAL_POLL_S if is_local(uri) else _REMOTE_POLL_S),
                    check_s=0.0 if is_local(uri) else _REMOTE_CHECK_S,
                )
                following = asyncio.create_task(follower.run())
                stack.push_async_callback(asyncio.wait, [following])
                stack.callback(following.cancel)
            reader = NativeReader(
                served,
                StateReader(
                    table,
                    lease,
                    settings.limits,
                    background,
                    server_id=owners.server_id,
                    default_deadline_ms=settings.default_deadline_ms,
                ),
                default_deadline_ms=settings.default_deadline_ms,
            )
            catalog = NativeCatalog(served, self.name, owners, follower)
            router = self._router(stack, reader, catalog, owners)
            ports = PublicPorts(
                router,
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

    def _router(
        self,
        stack: contextlib.AsyncExitStack,
        reader: NativeReader,
        catalog: NativeCatalog,
        owners: Owners,
    ) -> Router:
        """Routes to this process alone, or to all servers that share the partitions."""
        own = LocalRouter(reader, catalog)
        if not owners.are_several:
            return own
        locations = LocationTable(catalog)
        stack.push_async_callback(locations.aclose)
        others = ProxyRouter(
            locations,
            server_id=owners.server_id,
            engine=reader,
            signer=CallSigner(self.settings.secret) if self.settings.secret else None,
            connector=self.settings.tls.connector(),
            default_deadline_ms=self.settings.default_deadline_ms,
        )
        router = SharedRouter(own, others)
        stack.push_async_callback(router.aclose)
        return router

    async def _load(
        self,
        served: ServedQuery,
        checkpoint: QueryCheckpoint,
        states: StatesReader,
        threads: ThreadPool,
    ) -> None:
        """Begins at the newest committed batch; loads all partitions unless `lazy`."""
        for attempt in range(1, _STARTS + 1):
            while not (batches := await threads.run(checkpoint.committed_batches)):
                if not self.settings.follow:
                    raise CheckpointError(
                        f"{served.uri} has no committed batch yet: serve it after its first "
                        "batch, or with --follow, which waits for it"
                    )
                await asyncio.sleep(_FIRST_BATCH_POLL_S)
            try:
                facts = await threads.run(BatchFacts.of, checkpoint, batches[-1])
                served.begin(await threads.run(states.read, facts), facts)
                if not self.settings.lazy:
                    await self._load_all(served)
            except VersionGoneError:
                # The query went on meanwhile and removed the files of its older batches.
                if attempt == _STARTS:
                    raise
            else:
                return

    async def _load_all(self, served: ServedQuery) -> None:
        begun_s = time.monotonic()
        loading = asyncio.ensure_future(served.load_all())
        while not (await asyncio.wait({loading}, timeout=_PROGRESS_S))[0]:
            _log.info("%s: %s", served.uri, served.progress)
        loading.result()
        _log.info(
            "%s: %s as of batch %d, in %.1f s",
            served.uri,
            served.progress,
            served.facts.batch,
            time.monotonic() - begun_s,
        )


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
