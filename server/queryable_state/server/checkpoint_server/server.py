"""Process that serves one checkpoint: its components, their start and their shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from typing import TYPE_CHECKING, Self

from queryable_state.server.checkpoint.completed import find
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint_server.catalog import CheckpointCatalog
from queryable_state.server.checkpoint_server.checkpoint_loader import CheckpointLoader
from queryable_state.server.checkpoint_server.checkpoint_reader import CheckpointReader
from queryable_state.server.checkpoint_server.loading_checkpoint import LoadingCheckpoint
from queryable_state.server.checkpoint_server.public_ports import PublicPorts
from queryable_state.server.checkpoint_server.state_folder import StateFolder
from queryable_state.server.checkpoint_server.stoppable_load import unless_stopped
from queryable_state.server.query.local_router import LocalRouter
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.server.serving.public_server import PublicServer
from queryable_state.server.state_server.base.background_thread import BackgroundThread
from queryable_state.server.web.api.job_control import NoOperations
from queryable_state.wire.errors import CheckpointError, InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.checkpoint.completed import Completed
    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
    from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.v1 import registration_pb2, status_pb2

_log = logging.getLogger(__name__)


class CheckpointServer(PublicServer):
    """Answers `QueryableState` from a checkpoint or savepoint while `async with` lasts.

    Entering binds the ports, loads all state, and raises if the checkpoint is damaged; while it
    loads, the server is NOT_SERVING and describes how far it is. It does not read the
    checkpoint's files afterwards. The caller may pass a `shutdown` to end the server.
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
        self.server_id = f"checkpoint-{uuid.uuid4().hex[:12]}"
        self._started: tuple[str, Completed] | None = None
        self._loading = LoadingCheckpoint(settings.checkpoint, server_id=self.server_id)
        self._table: StoreTable | None = None
        """None while the state is loaded."""

    @property
    def address(self) -> str:
        """HOST:PORT at which clients reach the server, once it is bound."""
        return self._loading.address or self._running()[0]

    @property
    def completed(self) -> Completed:
        """The served checkpoint, once entered."""
        return self._running()[1]

    async def __aenter__(self) -> Self:
        settings = self.settings
        # Before the state is loaded, which may take long.
        tls = ServerTls.of(settings.tls)
        async with contextlib.AsyncExitStack() as stack:
            folder = await asyncio.to_thread(StateFolder, settings.directory)
            stack.push_async_callback(asyncio.to_thread, folder.remove)
            # The stores close after the ports.
            loaded = await stack.enter_async_context(contextlib.AsyncExitStack())
            background = BackgroundThread()
            stack.push_async_callback(background.aclose)
            router = LocalRouter(self._loading, self._loading)
            stack.push_async_callback(router.aclose)
            ports = PublicPorts(
                router,
                settings,
                stack,
                self.shutdown,
                server_id=self.server_id,
                tls=tls,
                find_state=self._registration,
                watchdog=self._watchdog,
            )
            ports.bind()
            self._loading.address, self._loading.frames = ports.address, ports.frames
            await ports.start(NoOperations(router.list_jobs), ready=False)
            self.web_address = ports.web_address
            completed, table = await unless_stopped(
                self._load(loaded, folder.path), self.shutdown, settings.checkpoint
            )
            self._table = table
            reader = CheckpointReader(
                table, completed, settings.limits, background, server_id=self.server_id
            )
            catalog = CheckpointCatalog(completed, server_id=self.server_id)
            catalog.address, catalog.frames = ports.address, ports.frames
            router.use(reader, catalog)
            ports.be_ready()
            self._started = (ports.address, completed)
            self._stack = stack.pop_all()
        return self

    def progress(self) -> list[status_pb2.RestoreProgress]:
        """How far each subtask is that is not loaded yet."""
        return self._loading.progress()

    def _registration(self, state_id: int) -> registration_pb2.StateRegistration | None:
        return None if self._table is None else self._table.registration(state_id)

    def _running(self) -> tuple[str, Completed]:
        if self._started is None:
            raise InvalidRequestError("this checkpoint server has not started")
        return self._started

    async def _load(
        self, stack: contextlib.AsyncExitStack, directory: Path
    ) -> tuple[Completed, StoreTable]:
        """Loads the newest intact checkpoint."""
        uri = self.settings.checkpoint
        storage = await asyncio.to_thread(storage_of, uri, self.settings.storage_options)
        found = await asyncio.to_thread(find, uri, storage)
        for each in found.broken:
            if not each.begun:
                _log.error("%s cannot be served: %s", each.path, each.problem)
        problems: list[CheckpointError] = []
        for number, completed in enumerate(found.completed):
            loader = CheckpointLoader(
                self.settings, storage, directory / str(number), self.server_id
            )
            self._loading.begins(completed, loader)
            try:
                table = await loader.load(completed)
            except CheckpointError as problem:
                await loader.aclose()
                problems.append(problem)
            except BaseException:
                await loader.aclose()
                raise
            else:
                stack.push_async_callback(loader.aclose)
                if problems:
                    _log.error(
                        "serving the older checkpoint %s, because newer ones are damaged: %s",
                        completed.uri,
                        "; ".join(map(str, problems)),
                    )
                return completed, table
        raise (
            problems[0]
            if problems
            else CheckpointError(
                f"{uri} has no completed checkpoint yet: serve it after its first checkpoint"
            )
        )
