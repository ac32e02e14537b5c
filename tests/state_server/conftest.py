"""A coordinator, state servers and tasks in the test's process, over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.state_server.gated_files import GATE, Gate
from tests.state_server.owner import ManualClock, Owner
from tests.state_server.queries import scans

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc
from queryable_state.server.settings import CoordinatorSettings, StateServerSettings
from queryable_state.server.state_server.server import StateServer
from queryable_state.server.testing import InProcessCoordinator, in_process_coordinator
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.calls.job_secret import secret_metadata
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.keys.key_groups import KeyGroups, subtask_of
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, record_key
from queryable_state.wire.schema.types import TypeInfo, Types
from queryable_state.wire.status import error_from_call
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from queryable_state.server.coordinator import JobConfig

PARALLELISM = 2
MAX_PARALLELISM = 128
KEYS = KeyGroups(Types.STRING(), MAX_PARALLELISM)
VALUES = ValueCodec.of(Types.STRING())
DEADLINE_S = 20.0

# No heartbeat comes between two lines of a test: what renews a lease stands in it.
LEASE_MS = 60_000


class Clock:
    """Monotonic seconds that jump when told to, beside the real time."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._ahead_s

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds


@dataclass
class Attempt:
    """One attempt of a task at one batch of one subtask, speaking to one server."""

    stub: Any
    secret: str
    query_id: bytes
    run_id: bytes
    batch_id: int
    subtask: int
    task_attempt: int
    execution: int = 1
    """Number of the execution of the operator in the task attempt."""
    parallelism: int = PARALLELISM
    begun: backend_pb2.BeginResponse = field(default_factory=backend_pb2.BeginResponse)
    operator_states: dict[str, Any] = field(default_factory=dict)
    """Operator states the operator has beside its keyed one: kinds by name."""
    value_type: TypeInfo = field(default_factory=Types.STRING)

    @property
    def subtask_proto(self) -> backend_pb2.Subtask:
        return backend_pb2.Subtask(
            query_id=self.query_id,
            operator_uid="op",
            index=self.subtask,
            parallelism=self.parallelism,
            max_parallelism=MAX_PARALLELISM,
        )

    @property
    def state_id(self) -> int:
        return self.begun.states[0].state_id

    async def call(self, rpc: Any, request: Any, secret: str | None = None) -> Any:
        """The answer, or the refusal raised as the error it is."""
        try:
            return await rpc(
                request, metadata=secret_metadata(secret or self.secret), timeout=DEADLINE_S
            )
        except grpc.aio.AioRpcError as failure:
            raise error_from_call(failure, "server") from None

    async def locate(self) -> None:
        """Asks the server for the owner: itself, where there was none."""
        request = backend_pb2.LocateSubtaskRequest(subtask=self.subtask_proto)
        await self.call(self.stub.LocateSubtask, request)

    async def shut_down(self) -> None:
        """Ends the server, as the coordinator does."""
        await self.call(self.stub.Shutdown, backend_pb2.ShutdownRequest())

    async def begin(self) -> Attempt:
        request = backend_pb2.BeginRequest(
            subtask=self.subtask_proto,
            run_id=self.run_id,
            batch_id=self.batch_id,
            task_attempt=self.task_attempt,
            operator_depth=1,
            operator_name="operator",
            execution=self.execution,
            states=[
                self._declared("last", registration_pb2.VALUE),
                *(self._declared(name, kind) for name, kind in self.operator_states.items()),
            ],
        )
        self.begun = await self.call(self.stub.Begin, request)
        return self

    def _declared(self, name: str, kind: Any) -> registration_pb2.StateRegistration:
        return registration_pb2.StateRegistration(
            job_id=self.query_id,
            operator_uid="op",
            operator_name="operator",
            operator_depth=1,
            state_name=name,
            queryable_name=name if kind == registration_pb2.VALUE else "",
            kind=kind,
            key_type=Types.STRING().to_proto(),
            value_types=[
                registration_pb2.SchemaVersion(version=1, type=self.value_type.to_proto())
            ],
            max_parallelism=MAX_PARALLELISM,
        )

    async def fetch(self, *keys: str) -> dict[str, str]:
        request = backend_pb2.FetchRequest(
            subtask=self.subtask_proto,
            batch_id=self.batch_id,
            token=self.begun.token,
            fetches=[
                backend_pb2.StateFetch(
                    state_id=self.state_id, keys=[record_key(KEYS.wire_key(key)) for key in keys]
                )
            ],
        )
        response = await self.call(self.stub.Fetch, request)
        [result] = response.results
        found = [key for position, key in enumerate(keys) if position not in result.missing]
        return dict(zip(found, map(VALUES.decode, result.values), strict=True))

    def frames(
        self, values: dict[str, str], *, fingerprint: int = 0
    ) -> list[backend_pb2.PrepareRequest]:
        """What a task sends: its open frame, its blocks, its seal."""
        sums = BlockSums()
        builder = ChangeBlockBuilder(self.state_id, sums)
        for key, value in values.items():
            builder.put(record_key(KEYS.wire_key(key), VOID_NAMESPACE), VALUES.encode(value))
        blocks = builder.finish()
        seal = sums.seal(self.begun.token, fingerprint=fingerprint, row_count=len(values))
        return [
            self.open_frame(),
            *(backend_pb2.PrepareRequest(block=block) for block in blocks),
            backend_pb2.PrepareRequest(seal=seal),
        ]

    def open_frame(self) -> backend_pb2.PrepareRequest:
        return backend_pb2.PrepareRequest(
            open=backend_pb2.PrepareOpen(
                subtask=self.subtask_proto, batch_id=self.batch_id, token=self.begun.token
            )
        )

    async def send(
        self, frames: Iterable[backend_pb2.PrepareRequest], secret: str | None = None
    ) -> backend_pb2.PrepareResponse:
        response: backend_pb2.PrepareResponse = await self.call(
            self.stub.Prepare, iter(frames), secret
        )
        return response

    async def prepare(
        self, values: dict[str, str], *, fingerprint: int = 0
    ) -> backend_pb2.PrepareResponse:
        return await self.send(self.frames(values, fingerprint=fingerprint))


class Job:
    """A query of the engine in memory, and the tasks of its batches."""

    def __init__(self, cluster: Cluster, query_id: bytes, run_id: bytes) -> None:
        self.cluster = cluster
        self.query_id = query_id
        self.run_id = run_id

    @property
    def root(self) -> Path:
        """The folder of its durable state."""
        return self.cluster.root

    def restart(self) -> Job:
        """A new run of the query; this one goes on as the zombie it is."""
        _, run_id = self.cluster.coordinator.engine.start("job", query_id=self.query_id)
        return Job(self.cluster, self.query_id, run_id)

    def attempt(
        self, server: StateServer, batch_id: int, subtask: int = 0, *, attempt: int | None = None
    ) -> Attempt:
        """One attempt, not begun; newer than all before unless `attempt` says otherwise."""
        return self.attempt_at(server.addresses.backend, batch_id, subtask, attempt=attempt)

    def attempt_at(
        self, address: str, batch_id: int, subtask: int = 0, *, attempt: int | None = None
    ) -> Attempt:
        """One attempt that speaks to the server at an address."""
        cluster = self.cluster
        cluster.coordinator.engine.plan(
            self.query_id, batch_id, timestamp_ms=batch_id * 1000, watermark_ms=batch_id * 10
        )
        return Attempt(
            stub=backend_pb2_grpc.StateBackendStub(cluster.channel(address)),
            secret=cluster.coordinator.secret,
            query_id=self.query_id,
            run_id=self.run_id,
            batch_id=batch_id,
            subtask=subtask,
            task_attempt=next(cluster.attempts) if attempt is None else attempt,
        )

    async def begin(
        self,
        server: StateServer,
        batch_id: int,
        subtask: int = 0,
        *,
        attempt: int | None = None,
        parallelism: int = PARALLELISM,
    ) -> Attempt:
        """One attempt, assigned to the server where nobody owns its subtask, and begun."""
        made = self.attempt(server, batch_id, subtask, attempt=attempt)
        made.parallelism = parallelism
        await made.locate()
        return await made.begin()

    async def run(self, server: StateServer, batch_id: int, values: dict[str, str]) -> None:
        """A whole batch on all subtasks, committed by the engine and known to the server."""
        for subtask in range(PARALLELISM):
            task = await self.begin(server, batch_id, subtask)
            mine = {
                key: value
                for key, value in values.items()
                if subtask_of(KEYS.of(key), PARALLELISM, MAX_PARALLELISM) == subtask
            }
            await task.prepare(mine)
        await self.commit(server, batch_id)

    async def checkpoint(self) -> None:
        """Takes a checkpoint of what is committed."""
        coordinator = self.cluster.coordinator.coordinator
        await asyncio.to_thread(coordinator.trigger_checkpoint, self.query_id, DEADLINE_S)

    async def commit(self, server: StateServer, batch_id: int) -> None:
        self.cluster.coordinator.engine.commit(self.query_id, batch_id)
        self.cluster.coordinator.coordinator.batch_committed(self.query_id, batch_id)
        await until(lambda: self.committed(server) >= batch_id)

    def committed(self, server: StateServer) -> int:
        job = server.table.job(self.query_id)
        return -1 if job is None else job.committed_version

    def ask(self, server: StateServer, *keys: str, **fields: Any) -> query_pb2.Answer:
        """What the server's engine answers for the job's state."""
        job = server.table.job(self.query_id)
        state_ids = {
            state_id
            for owned in (job.subtasks.values() if job else ())
            for state_id in owned.states
        }
        query = query_pb2.Query(
            id=1,
            state_id=next(iter(state_ids), 1),
            keys=[KEYS.wire_key(key) for key in keys],
            **fields,
        )
        answer = server.engine.answer(query)
        assert answer is not None
        return answer

    def read(self, server: StateServer, *keys: str, **fields: Any) -> list[str]:
        """The values the server's engine answers."""
        return [VALUES.decode(value) for value in self.ask(server, *keys, **fields).values]


class Cluster:
    """A coordinator and whoever has joined it."""

    def __init__(
        self, coordinator: InProcessCoordinator, directory: Path, stack: AsyncExitStack
    ) -> None:
        self.coordinator = coordinator
        self.attempts = itertools.count(100)
        self.directory = directory
        self._stack = stack
        self._channels: dict[str, grpc.aio.Channel] = {}

    def settings(self, executor_id: str = "e1", **settings: Any) -> StateServerSettings:
        fields: dict[str, Any] = {
            "coordinator_address": self.coordinator.address,
            "secret": self.coordinator.secret,
            "executor_id": executor_id,
            "directory": str(self.directory / executor_id),
            "query_ports": "0",
            "proxy_ports": "0",
            "drain_timeout_s": 1.0,
        }
        return StateServerSettings(**(fields | settings))

    async def server(
        self, executor_id: str = "e1", *, clock: Any = None, **settings: Any
    ) -> StateServer:
        """A server that has joined; it leaves at the end of the test."""
        made = self.settings(executor_id, **settings)
        server = StateServer(made, clock=clock) if clock else StateServer(made)
        return await self._stack.enter_async_context(server)

    @property
    def root(self) -> Path:
        """The folder of a durable job's state."""
        return self.directory / "spark.queryable-state"

    def job(self, *, durable: bool = False, config: JobConfig | None = None) -> Job:
        """A query that has been started; with a configuration it is durable, too."""
        if config is not None:
            self.coordinator.coordinator.configure("", config)
        location = str(self.directory / "spark") if durable or config is not None else ""
        return Job(self, *self.coordinator.engine.start("job", checkpoint_location=location))

    def stub(self, server: StateServer) -> Any:
        return backend_pb2_grpc.StateBackendStub(self.channel(server.addresses.backend))

    def channel(self, address: str) -> grpc.aio.Channel:
        """A channel to any port of a server; closed at the end of the test."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = grpc.aio.insecure_channel(address)
            self._stack.push_async_callback(channel.close)
        return channel


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition, at most for the deadline of the tests."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - state of other threads and processes
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running_cluster(directory: Path) -> AsyncIterator[Cluster]:
    settings = CoordinatorSettings(strict=False, ports="0", lease_ms=LEASE_MS, stop_timeout_s=2.0)
    with in_process_coordinator(settings=settings) as coordinator:
        async with AsyncExitStack() as stack:
            yield Cluster(coordinator, directory, stack)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path) as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    return until


@pytest.fixture
def key_of() -> Callable[[int, int], str]:
    """The `number`-th key that belongs to a subtask."""

    def find(subtask: int, number: int = 0) -> str:
        found: Iterator[str] = (
            f"k{i}"
            for i in range(10_000)
            if subtask_of(KEYS.of(f"k{i}"), PARALLELISM, MAX_PARALLELISM) == subtask
        )
        return next(itertools.islice(found, number, None))

    return find


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Holds writes to `gated://` paths up when it is told to."""
    with GATE.fresh():
        yield GATE


@pytest.fixture(params=["heap", "rocksdb"])
async def owner(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Owner]:
    """The parts behind an engine, on either backend, without sockets."""
    running = Owner(request.param, tmp_path / "owned", ManualClock())
    yield running
    await running.aclose()


@pytest.fixture
def filled(owner: Owner) -> Owner:
    """An owner of all keys, with one batch of `scans.ALL`."""
    owner.own_all()
    owner.seal(0, scans.ALL)
    owner.commit(0, watermark_ms=8)
    return owner
