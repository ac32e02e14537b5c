"""Coordinators and state servers in one process, joined by calls instead of sockets."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
from queryable_state.server.checkpoint.object_storage import MemoryObjectStore
from queryable_state.server.coordinator.announcer import Announcer
from queryable_state.server.coordinator.authority import Authority
from queryable_state.server.coordinator.batches import Batches
from queryable_state.server.coordinator.books import Books
from queryable_state.server.coordinator.catalog import Catalog
from queryable_state.server.coordinator.checkpointing import Checkpointing
from queryable_state.server.coordinator.epochs import Epochs
from queryable_state.server.coordinator.job_config import JobConfig, JobConfigs
from queryable_state.server.coordinator.job_roots import JobRoots
from queryable_state.server.coordinator.leases import Leases
from queryable_state.server.coordinator.manifests import Manifests
from queryable_state.server.coordinator.recovery import Recovery
from queryable_state.server.coordinator.restore_plans import RestorePlans
from queryable_state.server.coordinator.subtasks import Subtasks
from queryable_state.server.settings import CoordinatorSettings, StateServerSettings
from queryable_state.server.state_server.backend_parts import BackendParts, StoreFolders
from queryable_state.server.state_server.heartbeats import Heartbeats
from queryable_state.server.state_server.lease import Lease
from queryable_state.server.state_server.store_table import StoreTable
from queryable_state.server.state_server.thread_pool import ServerThreads
from queryable_state.v1 import errors_pb2
from queryable_state.wire.errors import QueryableStateError, RetryLaterError
from queryable_state.wire.status import ERROR_METADATA

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
    from pathlib import Path

    from queryable_state.server.coordinator.commits import CommitRound
    from queryable_state.server.testing import InMemoryEngine

_T = TypeVar("_T")

LEASE_MS, MARGIN_MS = 5_000, 1_000
_STEP_MS = 200
_DEADLINE_S = 30.0


class LoopThread:
    """An event loop that always runs; the test's thread waits for what it hands over."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Waits for a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_DEADLINE_S)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class _RefusedError(Exception):
    def __init__(self, error: QueryableStateError) -> None:
        super().__init__(str(error))
        self.error = error


class Clock:
    """The time of drivers and servers alike; it passes only when told to."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000


class Driver:
    """A coordinator's parts, without its port. Blocking, as they are."""

    def __init__(self, engine: InMemoryEngine, clock: Clock, servers: Servers) -> None:
        settings = CoordinatorSettings(
            lease_ms=LEASE_MS,
            lease_margin_ms=MARGIN_MS,
            push_timeout_ms=1_000,
            manifest_timeout_ms=5_000,
        )
        links: Any = _Links(servers)
        self._clock = clock
        self.books = Books(settings, clock_ms=lambda: clock.now_ms, wall_ms=lambda: clock.now_ms)
        self.leases = Leases(self.books)
        self.roots = JobRoots()
        configs = JobConfigs()
        # Every file of a checkpoint stands apart, so that it can be damaged.
        configs.configure("", JobConfig(inline_bytes=0))
        self.objects = MemoryObjectStore()
        batches = Batches(self.books)
        settled = threading.Event()
        self.announcer = Announcer(
            batches,
            Manifests(engine, batches, self.roots),
            links,
            engine,
            settled,
            strict=False,
            manifest_timeout_s=5.0,
        )
        self.authority = Authority(
            engine,
            Recovery(engine, self.books, configs, self.roots, Epochs(), self.objects),
            self.roots,
            RestorePlans(engine, self.books, self.roots),
            Subtasks(self.books),
            batches,
            Catalog(self.books),
            self.announcer,
            settle_timeout_s=1.0,
        )
        self.checkpointing = Checkpointing(
            engine, self.books, self.roots, links, self.authority, settled
        )

    def advance(self, ms: int) -> None:
        """Lets time pass, in steps: a leap would be taken for a stalled process."""
        while ms > 0:
            self._clock.now_ms += min(ms, _STEP_MS)
            ms -= _STEP_MS
            self.leases.tick()

    def close(self) -> None:
        self.checkpointing.close()
        self.announcer.close()


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
        link: Any = _Link(self)
        parts = self._parts = BackendParts(
            settings,
            link,
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
            link,
            self.lease,
            self.table,
            parts.holdings,
            coordinator_pb2.RegisterServerRequest(
                server_id=name, executor_id=executor, backend_address=name
            ),
            stop=self._stop,
            orphan_timeout_s=1e9,
        )
        self._folding = asyncio.get_running_loop().create_task(parts.folder.run())
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
        except _RefusedError as refusal:
            raise refusal.error from None

    async def events(self, request: backend_pb2.SnapshotRequest) -> list[Any]:
        """All of a snapshot."""
        return [event async for event in self.service.Snapshot(request, _context())]

    async def kill(self) -> None:
        """Ends without a word to anybody."""
        self._world.by_address.pop(self.name, None)
        self._stop.set()
        self._folding.cancel()
        await self._parts.aclose()
        await self._threads.aclose()


class _Context:
    async def abort(self, _status: object, _text: str, metadata: Any) -> None:
        raw = dict(metadata)[ERROR_METADATA]
        raise _RefusedError(QueryableStateError.from_proto(errors_pb2.Error.FromString(raw)))


def _context() -> Any:
    return _Context()


class _Link:
    """A server's way to its coordinator: the calls of `CoordinatorLink`."""

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


def _ask(driver: Driver, name: str) -> Callable[[Any], Any]:
    at_leases: dict[str, Callable[[Any], Any]] = {
        "register_server": driver.leases.register,
        "heartbeat": driver.leases.heartbeat,
    }
    found = at_leases.get(name)
    return getattr(driver.authority, name) if found is None else found


class _Links:
    """A coordinator's way to its servers: the calls of `BackendLinks`."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def commit(self, commit_round: CommitRound) -> dict[str, list[backend_pb2.SealedSubtask]]:
        commit = commit_round.commit
        request = backend_pb2.CommitRequest(
            query_id=commit_round.query_id,
            version=commit.version,
            commit_time_ms=commit.commit_time_ms,
            watermark_ms=commit.watermark_ms,
            stable_version=commit_round.stable_version,
        )
        seals = {}
        for server_id, address in commit_round.addresses.items():
            answer = self._answer(address, "Commit", request)
            if answer is not None:
                seals[server_id] = list(answer.sealed)
        return seals

    def drop_query(self, query_id: bytes, addresses: Iterable[str]) -> set[str]:
        request = backend_pb2.DropQueryRequest(query_id=query_id)
        return {a for a in addresses if self._answer(a, "DropQuery", request) is not None}

    def snapshot(
        self, address: str, request: backend_pb2.SnapshotRequest, timeout_s: float
    ) -> _SnapshotCall:
        return _SnapshotCall(self._servers, address, request)

    def _answer(self, address: str, rpc: str, request: Any) -> Any:
        server = self._servers.by_address.get(address)
        if server is None or server.driver is None:
            return None
        try:
            return self._servers.runner.run(server.call(rpc, request))
        except QueryableStateError:
            return None


class _SnapshotCall:
    def __init__(
        self, servers: Servers, address: str, request: backend_pb2.SnapshotRequest
    ) -> None:
        self._servers, self._address, self._request = servers, address, request

    def __iter__(self) -> Iterator[backend_pb2.SnapshotEvent]:
        server = self._servers.by_address.get(self._address)
        if server is None or server.driver is None:
            raise RetryLaterError(f"nobody answers at {self._address}")
        try:
            yield from self._servers.runner.run(server.events(self._request))
        except _RefusedError as refusal:
            raise refusal.error from None

    def cancel(self) -> None:
        """What is not begun yet has nothing to end."""


async def frames(parts: list[backend_pb2.PrepareRequest]) -> AsyncIterator[Any]:
    """The stream of a prepare."""
    for part in parts:
        yield part
