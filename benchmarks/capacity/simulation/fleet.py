"""The simulated servers and the tasks of one job on them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import psutil

from benchmarks.capacity.simulation.driver import Cost
from benchmarks.capacity.simulation.server import SimulatedServer
from queryable_state.internal.v1 import backend_pb2

if TYPE_CHECKING:
    from benchmarks.capacity.simulation.driver import DriverHandle

_AT_ONCE = 256
"""Concurrent tasks."""
_KNOWN_S = 10.0
_LOOK_S = 0.01


@dataclass(frozen=True)
class Phase:
    """The cost of one step: wall-clock seconds and CPU seconds of the coordinator."""

    title: str
    seconds: float
    coordinator_cpu_s: float
    calls: int = 0
    """Calls to or by the coordinator; 0 if not counted."""
    wire_bytes: int = 0
    """Bytes of the messages of those calls, without HTTP/2."""


class Fleet:
    """Servers, some of which may be killed, and one job over the live ones."""

    def __init__(
        self, driver: DriverHandle, *, servers: int, subtasks: int, key_groups: int
    ) -> None:
        self._driver = driver
        self._address, self._query_id, self._run_id, pid = driver.describe()
        self._coordinator = psutil.Process(pid)
        self._subtasks = [
            backend_pb2.Subtask(
                query_id=self._query_id,
                operator_uid="operator",
                index=index,
                parallelism=subtasks,
                max_parallelism=key_groups,
            )
            for index in range(subtasks)
        ]
        self._servers: dict[str, SimulatedServer] = {}
        self._size = servers
        self._lost: set[str] = set()
        self._owners: dict[int, str] = {}
        self._batch = -1
        self._random = random.Random(7)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers.values()))

    async def register(self) -> Phase:
        """Registers all servers concurrently."""
        servers = [SimulatedServer(number, self._address) for number in range(self._size)]
        self._servers = {server.server_id: server for server in servers}
        await asyncio.gather(*(server.listen() for server in servers))
        cost = self._cost()
        await asyncio.gather(*(server.register() for server in servers))
        return self._phase("all servers register", cost, len(servers))

    async def run_batch(self, title: str) -> tuple[Phase, Phase, Phase]:
        """Begins the task of every subtask on a random server, then commits the batch."""
        self._batch += 1
        await asyncio.to_thread(self._driver.plan, self._batch)
        cost = self._cost()
        turns = asyncio.Semaphore(_AT_ONCE)
        alive = list(self._servers.values())

        async def task(subtask: backend_pb2.Subtask) -> None:
            async with turns:
                server = self._random.choice(alive)
                owner = await server.assign(subtask)
                while owner in self._lost:
                    owner = await server.assign(subtask, not_server_id=owner)
            self._owners[subtask.index] = owner
            await self._servers[owner].begin(subtask, self._run_id, self._batch)

        await asyncio.gather(*map(task, self._subtasks))
        begun = self._phase(f"{title}: begun", cost, len(self._subtasks) + len(alive))
        cost = self._cost()
        await asyncio.to_thread(self._driver.commit, self._batch)
        committed = self._phase(f"{title}: committed", cost, len(alive))
        while behind := sum(s.owns_any and s.committed < self._batch for s in alive):
            # A server that the push missed learns the commit with its next lease.
            if cost.seconds() > _KNOWN_S:
                raise RuntimeError(
                    f"{behind} servers do not know the commit of batch {self._batch}"
                )
            await asyncio.sleep(_LOOK_S)
        return begun, committed, self._phase(f"{title}: known to all servers", cost)

    async def idle(self, seconds: float) -> Phase:
        """Waits some seconds, with heartbeats only."""
        cost = self._cost()
        before = sum(server.heartbeats for server in self._servers.values())
        await asyncio.sleep(seconds)
        calls = sum(server.heartbeats for server in self._servers.values()) - before
        mean = sum(s.heartbeat_bytes for s in self._servers.values()) / len(self._servers)
        return self._phase("heartbeats", cost, calls, int(calls * mean))

    async def locate(self, title: str) -> Phase:
        """Locates the state from the proxy of every server, 64 at a time."""
        turns = asyncio.Semaphore(64)
        alive = list(self._servers.values())
        sizes: list[int] = []

        async def locate(server: SimulatedServer) -> None:
            async with turns:
                sizes.append((await server.locate()).ByteSize())

        cost = self._cost()
        await asyncio.gather(*map(locate, alive))
        return self._phase(title, cost, len(alive), sum(sizes))

    async def lose(self, count: int) -> Phase:
        """Kills some servers and begins the next batch at once, which waits for the new owners."""
        lost = self._random.sample(sorted(self._servers), count)
        moved = sum(owner in lost for owner in self._owners.values())
        gone = [self._servers.pop(server_id) for server_id in lost]
        self._lost.update(lost)
        await asyncio.gather(*(server.stop() for server in gone))
        begun, _, _ = await self.run_batch(f"{count} killed, {moved} subtasks reassigned")
        return begun

    def rss_bytes(self) -> int:
        """Resident memory of the driver process."""
        return int(self._coordinator.memory_info().rss)

    def _cost(self) -> Cost:
        return Cost(self._coordinator)

    def _phase(self, title: str, cost: Cost, calls: int = 0, wire_bytes: int = 0) -> Phase:
        return Phase(title, cost.seconds(), cost.cpu_s(), calls, wire_bytes)
