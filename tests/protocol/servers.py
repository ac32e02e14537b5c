"""State servers without ports, reached by calls instead of sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
from queryable_state.server.state_server.backend_parts import BackendParts, StoreFolders
from queryable_state.server.state_server.base.lease import Lease
from queryable_state.server.state_server.base.thread_pool import ServerThreads
from queryable_state.server.state_server.heartbeats import Heartbeats
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.state_server.stores.store_table import StoreTable
from queryable_state.v1 import errors_pb2
from queryable_state.wire.errors import QueryableStateError, RetryLaterError
from queryable_state.wire.status import ERROR_METADATA

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from tests.protocol.drivers import Driver
    from tests.protocol.loop import Clock

    from queryable_state.wire.calls.loop_thread import LoopThread


class RefusedError(Exception):
    def __init__(self, error: QueryableStateError) -> None:
        super().__init__(str(error))
        self.error = error


class Servers:
    """The state servers that run, by address."""

    def __init__(self, runner: LoopThread) -> None:
        self.runner = runner
        self.by_address: dict[str, Server] = {}


class Server:
    """A state server's parts, without its ports."""

    def __init__(
        self, name: str, executor: str, folder: Path, world: Servers, clock: Clock
    ) -> None:
        self.name = name
        self.executor = executor
        self.driver: Driver | None = None
        """The coordinator it reaches; None: it is cut off."""
        self.lease = Lease(clock=lambda: clock.now_ms / 1000)
        self.table = StoreTable(name)
        self._world = world
        self._threads = ServerThreads()
        self._stop = asyncio.Event()
        settings = StateServerSettings(
            coordinator_address="-", secret="-", executor_id=executor, directory=str(folder)
        )
        coordinator: Any = _Coordinator(self)
        parts = self._parts = BackendParts(
            settings,
            coordinator,
            self.table,
            self.lease,
            self._threads,
            StoreFolders(settings),
            server_id=name,
            backend_address=name,
            stop=self._stop,
        )
        self.service = parts.service
        self.heartbeats = Heartbeats(
            _LeaseCalls(self),
            self.lease,
            self.table,
            parts.owned_stores,
            coordinator_pb2.RegisterServerRequest(
                server_id=name, executor_id=executor, backend_address=name
            ),
            stop=self._stop,
            orphan_timeout_s=1e9,
        )
        self._compacting = asyncio.get_running_loop().create_task(parts.compactor.run())
        world.by_address[name] = self

    @property
    def has_ended(self) -> bool:
        """Whether it was told to stop."""
        return self._stop.is_set()

    async def call(self, rpc: str, request: Any) -> Any:
        """One call of a task or coordinator; raises the refusal."""
        if self.name not in self._world.by_address:
            raise RetryLaterError(f"nobody answers at {self.name}")
        try:
            return await getattr(self.service, rpc)(request, _Context())
        except RefusedError as refusal:
            raise refusal.error from None

    async def events(self, request: backend_pb2.SnapshotRequest) -> list[Any]:
        """All of a snapshot."""
        return [event async for event in self.service.Snapshot(request, _context())]

    async def kill(self) -> None:
        """Ends without a word to anybody."""
        self._world.by_address.pop(self.name, None)
        self._stop.set()
        self._compacting.cancel()
        await self._parts.aclose()
        await self._threads.aclose()


class _Context:
    async def abort(self, _status: object, _text: str, metadata: Any) -> None:
        raw = dict(metadata)[ERROR_METADATA]
        raise RefusedError(QueryableStateError.from_proto(errors_pb2.Error.FromString(raw)))


def _context() -> Any:
    return _Context()


class _Coordinator:
    """A server's way to its coordinator: the calls of `CoordinatorClient`."""

    address = "-"

    def __init__(self, server: Server) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(request: Any, *, timeout_s: float | None = None) -> Any:
            driver = self._server.driver
            if driver is None:
                raise RetryLaterError("no coordinator answers")
            copy = type(request).FromString(request.SerializeToString())
            answer = await asyncio.to_thread(_ask(driver, name), copy)
            if self._server.driver is not driver:
                raise RetryLaterError("no coordinator answers")
            return answer

        return call


class _LeaseCalls:
    """A server's calls for its lease."""

    address = "-"

    def __init__(self, server: Server) -> None:
        self._server = server

    def register_server(
        self, request: coordinator_pb2.RegisterServerRequest
    ) -> coordinator_pb2.Lease:
        return self._called("register_server", request)

    def heartbeat(
        self, request: coordinator_pb2.HeartbeatRequest, timeout_s: float
    ) -> coordinator_pb2.Lease:
        return self._called("heartbeat", request)

    def close(self) -> None:
        """Holds nothing open."""

    def _called(self, name: str, request: Any) -> coordinator_pb2.Lease:
        driver = self._server.driver
        if driver is None:
            raise RetryLaterError("no coordinator answers")
        lease: coordinator_pb2.Lease = _ask(driver, name)(
            type(request).FromString(request.SerializeToString())
        )
        if self._server.driver is not driver:
            raise RetryLaterError("no coordinator answers")
        return lease


def _ask(driver: Driver, name: str) -> Callable[[Any], Any]:
    at_leases: dict[str, Callable[[Any], Any]] = {
        "register_server": driver.leases.register,
        "heartbeat": driver.leases.heartbeat,
    }
    found = at_leases.get(name)
    return getattr(driver.batch_coordinator, name) if found is None else found


async def frames(parts: list[backend_pb2.PrepareRequest]) -> AsyncIterator[Any]:
    """The stream of a prepare."""
    for part in parts:
        yield part
