"""A job in this process whose answers are known, asked by several clients while it moves."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from tests.chaos.checks.asker import Asker
from tests.chaos.history.history import History
from tests.chaos.jobs.batches import DECLARED, changes_of
from tests.chaos.jobs.workload import JOB_NAME, STATES

from queryable_state.client import QueryableStateClient
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.chaos.checks.reads import Read

    from queryable_state.server.testing.cluster import InProcessCluster

_DEADLINE_S = 60.0
_ASKERS = 3
"""Each has a question under way, of a client, beside those that wait."""
_PATIENCE_S = 0.1
_MOST_WAITING = 8


class KnownJob:
    """Runs the batches of a seed one after the other, and keeps what askers were told.

    The same one goes on with a cluster that is started anew.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(f"known-{seed}")
        self.history = History(seed)
        self.reads: list[Read] = []
        self.committed_at: dict[int, float] = {}
        """When each batch was committed; nobody can be told of it before."""
        self.newest = -1
        """Newest batch that was begun."""
        self.query_id: bytes | None = None

    @property
    def committed(self) -> int:
        """Newest committed batch."""
        return max(self.committed_at, default=-1)

    def start(self, cluster: InProcessCluster) -> None:
        """Starts the query, or its next run; what is stored of it is to be recovered."""
        self.cluster = cluster
        self._job = cluster.job(
            JOB_NAME, *DECLARED, parallelism=4, durable=True, query_id=self.query_id
        )
        self.query_id = self._job.query_id

    async def recover(self) -> None:
        """Has what is stored opened, before any batch."""
        await asyncio.to_thread(self._job.recover)

    async def seal(self) -> None:
        """Writes the batch after the newest committed one, or writes it again."""
        self.newest = self.committed + 1
        changes = changes_of(self.history, self.newest)
        await self._job.seal(self.newest, changes)

    async def commit(self) -> None:
        """Commits what is sealed; returns once every server knows."""
        self.committed_at[self.newest] = time.time()
        await self._job.commit(self.newest)

    async def run(self, batches: int = 1) -> None:
        """Runs batches."""
        for _ in range(batches):
            await self.seal()
            await self.commit()

    async def checkpoint(self) -> None:
        """Takes a checkpoint."""
        await self._job.checkpoint()

    async def asked(self, count: int) -> None:
        """Returns once so many more questions were answered."""
        wanted = len(self.reads) + count
        async with asyncio.timeout(_DEADLINE_S):
            while len(self.reads) < wanted:  # noqa: ASYNC110 - of many tasks
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def asking(self, *, timeout_s: float = 3.0) -> AsyncIterator[None]:
        """Has clients ask at random: one that goes to owners, one that stays on a proxy.

        What is under way at the end is given up: it may wait for a batch that does not come.
        """
        proxy = await self.cluster.add_proxy()
        host, _, port = proxy.address.rpartition(":")
        async with AsyncExitStack() as clients:
            askers: list[asyncio.Task[None]] = []
            for direct in (True, False):
                client = QueryableStateClient(host, int(port), direct=direct, timeout_s=timeout_s)
                await clients.enter_async_context(client)
                askers += [asyncio.create_task(self._ask_on(client)) for _ in range(_ASKERS)]
            try:
                yield
            finally:
                for asker in askers:
                    asker.cancel()
                outcomes = await asyncio.gather(*askers, return_exceptions=True)
            for outcome in outcomes:
                if not isinstance(outcome, asyncio.CancelledError):
                    raise RuntimeError("who asks has ended by itself") from outcome

    async def _ask_on(self, client: QueryableStateClient) -> None:
        """Asks one question after the other; one that waits for a batch holds up no others."""
        chance = random.Random(self.chance.random())
        asker = Asker(client, STATES, chance, committed=lambda: self.committed)
        waiting: set[asyncio.Task[list[Read]]] = set()
        try:
            while True:
                waiting.add(asyncio.create_task(asker.ask()))
                patience_s = _PATIENCE_S if len(waiting) < _MOST_WAITING else None
                done, waiting = await asyncio.wait(
                    waiting, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED
                )
                for question in done:
                    self.reads += question.result()
        finally:
            for question in waiting:
                question.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def stop_a_server(job: KnownJob) -> None:
    """A server gives up what it owns, and another one is there."""
    await job.cluster.stop_server(job.chance.choice(job.cluster.servers))
    await job.cluster.add_server()


async def kill_a_server(job: KnownJob) -> None:
    """A server and its executor are gone; another one comes."""
    await job.cluster.kill_server(job.chance.choice(job.cluster.servers))
    await job.cluster.add_server()


async def respawn_a_server(job: KnownJob) -> None:
    """A server is killed, and started again by its executor."""
    await job.cluster.respawn_server(job.chance.choice(job.cluster.servers))


async def respawn_all_servers(job: KnownJob) -> None:
    """All servers are killed, and started again."""
    for server in list(job.cluster.servers):
        await job.cluster.respawn_server(server)


async def kill_a_server_that_has_sealed(job: KnownJob) -> None:
    """What it sealed is committed without it."""
    await job.seal()
    await kill_a_server(job)
    await job.commit()


async def write_a_batch_again(job: KnownJob) -> None:
    """A new run of the query writes what the one before has sealed already."""
    await job.seal()
    await job.asked(10)
    job.start(job.cluster)
    await job.recover()
    await job.seal()
    await job.asked(10)
    await job.commit()


async def kill_the_servers_of_a_batch_that_is_written_again(job: KnownJob) -> None:
    """What was sealed of it comes back, and is replaced."""
    await job.seal()
    await respawn_all_servers(job)
    job.start(job.cluster)
    await job.recover()
    await job.asked(10)
    await job.seal()
    await job.commit()


async def take_a_checkpoint(job: KnownJob) -> None:
    """Restores begin at it; one that a lost lease interrupts leaves those there are."""
    with suppress(CheckpointError):
        await job.checkpoint()


MOVES = {
    move.__name__: move
    for move in (
        stop_a_server,
        kill_a_server,
        respawn_a_server,
        respawn_all_servers,
        kill_a_server_that_has_sealed,
        write_a_batch_again,
        kill_the_servers_of_a_batch_that_is_written_again,
        take_a_checkpoint,
    )
}
"""What may happen to a job between two batches."""
