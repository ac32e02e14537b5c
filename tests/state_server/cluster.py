"""A coordinator, its jobs and state servers in the test's process, over real sockets."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio
from tests.state_server.attempt import KEYS, MAX_PARALLELISM, PARALLELISM, VALUES, Attempt
from tests.waiting import DEADLINE_S, eventually

from queryable_state.internal.v1 import backend_pb2_grpc
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.state_server.server import StateServer
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.testing import InProcessCoordinator, in_process_coordinator
from queryable_state.v1 import query_pb2
from queryable_state.wire.keys.key_groups import subtask_of
from queryable_state.wire.security.signed_calls import BACKEND, CallSigner, signed_stub

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.server.coordinator import JobConfig


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
            stub=cluster.stub_at(address),
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
        await eventually(lambda: self.committed(server) >= batch_id)

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
            "ports": ANY_PORTS,
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
        return self.stub_at(server.addresses.backend)

    def stub_at(self, address: str, *, secret: str = "") -> Any:
        """A stub that signs its calls, with the job's secret unless another is given."""
        return signed_stub(
            backend_pb2_grpc.StateBackendStub(self.channel(address)),
            BACKEND,
            CallSigner(secret or self.coordinator.secret, address),
        )

    def channel(self, address: str) -> grpc.aio.Channel:
        """A channel to any port of a server; closed at the end of the test."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = grpc.aio.insecure_channel(address)
            self._stack.push_async_callback(channel.close)
        return channel


@asynccontextmanager
async def running_cluster(directory: Path) -> AsyncIterator[Cluster]:
    settings = CoordinatorSettings(strict=False, ports="0", lease_ms=LEASE_MS, stop_timeout_s=2.0)
    with in_process_coordinator(settings=settings) as coordinator:
        async with AsyncExitStack() as stack:
            yield Cluster(coordinator, directory, stack)
