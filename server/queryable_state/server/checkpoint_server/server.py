"""Process that serves one checkpoint: its components, their start and their shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from queryable_state.server.checkpoint.completed import find
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint_server.catalog import CheckpointCatalog
from queryable_state.server.checkpoint_server.checkpoint_loader import (
    CheckpointLoader,
)
from queryable_state.server.checkpoint_server.checkpoint_reader import CheckpointReader
from queryable_state.server.checkpoint_server.loading_checkpoint import LoadingCheckpoint
from queryable_state.server.query.local_router import LocalRouter
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.security.access.gate_opener import open_gate
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.server.serving.advertised import Advertised
from queryable_state.server.serving.graceful_shutdown import GracefulShutdown
from queryable_state.server.serving.lame_duck import be_lame_duck
from queryable_state.server.serving.ports import PortSpec, frame_ports
from queryable_state.server.serving.query_server import QueryServer
from queryable_state.server.state_server.base.background_thread import BackgroundThread
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import CheckpointError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from queryable_state.server.checkpoint.completed import Completed
    from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.v1 import status_pb2

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class CheckpointServer:
    """Answers `QueryableState` from a checkpoint or savepoint while `async with` lasts.

    Entering binds the port, loads all state, and raises if the checkpoint is damaged; while it
    loads, the server is NOT_SERVING and describes how far it is. It does not read the
    checkpoint's files afterwards. The caller may pass a `shutdown` to end the server.
    """

    def __init__(
        self, settings: CheckpointServerSettings, *, shutdown: GracefulShutdown | None = None
    ) -> None:
        self.settings = settings
        self.server_id = f"checkpoint-{uuid.uuid4().hex[:12]}"
        self.shutdown = GracefulShutdown() if shutdown is None else shutdown
        self._stack = contextlib.AsyncExitStack()
        self._started: tuple[str, Completed] | None = None
        self._loading = LoadingCheckpoint(settings.checkpoint, server_id=self.server_id)

    def progress(self) -> list[status_pb2.RestoreProgress]:
        """How far each subtask is that is not loaded yet, while the server is entered."""
        return self._loading.progress()

    @property
    def address(self) -> str:
        """HOST:PORT at which clients reach the server, once it is bound."""
        return self._loading.address or self._running()[0]

    @property
    def completed(self) -> Completed:
        """The served checkpoint, once entered."""
        return self._running()[1]

    async def wait_stopped(self) -> None:
        """Waits for a stop, or for the end of the lame-duck time."""
        await self.shutdown.stopping.wait()

    async def aclose(self) -> None:
        """Answers the calls it has read, then ends; idempotent."""
        self.shutdown.stop()
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        settings = self.settings
        # Before the state is loaded, which may take long.
        tls = ServerTls.of(settings.tls)
        async with contextlib.AsyncExitStack() as stack:
            directory = await asyncio.to_thread(self._folder)
            stack.push_async_callback(asyncio.to_thread, directory.cleanup)
            # The stores close after the server.
            loaded = await stack.enter_async_context(contextlib.AsyncExitStack())
            background = BackgroundThread()
            stack.push_async_callback(background.aclose)
            router = LocalRouter(self._loading, self._loading)
            stack.push_async_callback(router.aclose)
            server = QueryServer(
                router,
                ServiceInfo(
                    server_id=self.server_id,
                    role=query_pb2.CHECKPOINT,
                    limits=settings.limits,
                    default_deadline_ms=settings.default_deadline_ms,
                    plain_grpc=settings.plain_grpc,
                ),
                tls=tls,
                gate=open_gate(settings.access, stack, server_id=self.server_id),
                insecure=settings.access.insecure,
            )
            stack.push_async_callback(server.aclose, self.shutdown, settings.drain_timeout_s)
            server.bind(
                PortSpec.parse(settings.ports, "--port"),
                settings.host,
                frames=frame_ports(settings.frame_ports, "--frame-port"),
                advertised=Advertised.parse(
                    settings.advertised, "--advertise", settings.advertised_frame_port
                ),
                what="checkpoint server port",
            )
            address = server.address
            self._loading.address, self._loading.frames = address, server.frames
            await server.start()
            completed, table = await self._unless_stopped(self._load(loaded, Path(directory.name)))
            reader = CheckpointReader(
                table, completed, settings.limits, background, server_id=self.server_id
            )
            catalog = CheckpointCatalog(completed, server_id=self.server_id)
            catalog.address, catalog.frames = address, server.frames
            router.use(reader, catalog)
            server.set_serving(True)
            duck = asyncio.create_task(be_lame_duck(self.shutdown, [server], settings.lame_duck_s))
            stack.push_async_callback(asyncio.wait, [duck])
            stack.callback(duck.cancel)
            self._started = (address, completed)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _unless_stopped(self, loading: Coroutine[Any, Any, _T]) -> _T:
        """The result of `loading`; cancels it and raises at the first step of a shutdown."""
        task = asyncio.create_task(loading)
        stopping = asyncio.create_task(self.shutdown.leaving.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise CheckpointError(f"stopped before {self.settings.checkpoint} was loaded")
            return task.result()
        finally:
            task.cancel()
            stopping.cancel()
            await asyncio.wait({task, stopping})

    def _running(self) -> tuple[str, Completed]:
        if self._started is None:
            raise InvalidRequestError("this checkpoint server has not started")
        return self._started

    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        try:
            return tempfile.TemporaryDirectory(
                prefix="queryable-state-", dir=self.settings.directory or None
            )
        except OSError as problem:
            where = self.settings.directory or tempfile.gettempdir()
            raise InvalidRequestError(
                f"cannot load the state into {where}: {problem}: choose another directory"
            ) from problem

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
