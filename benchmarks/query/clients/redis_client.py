"""redis-py's asyncio client over a bounded connection pool, and the search for its best size."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis

from benchmarks.query.clients.load_generator import AsyncioLoadGenerator, Operation
from benchmarks.query.dataset import BATCH_KEYS, REVISION_LENGTH

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from benchmarks.closed_loop import LoopSample
    from benchmarks.query.dataset import Dataset

POOL_SIZES = (4, 8, 16, 32, 64, 128, 256)
_PASSES = 2
"""Loops of each size in a search."""


class RedisValues:
    """The checks of values that a redis server returns as bytes."""

    def __init__(self, dataset: Dataset) -> None:
        self._stems = dataset.raw_stems

    def is_right(self, number: int, answer: bytes | None) -> bool:
        """True if the answer begins as the key's value does."""
        return answer is not None and answer[:-REVISION_LENGTH] == self._stems[number]

    def is_missing(self, number: int, answer: object) -> bool:
        """True if the answer is None."""
        return answer is None

    def are_right(self, start: int, answers: list[bytes | None]) -> bool:
        """True if each answer begins as its key's value does."""
        return [
            answer[:-REVISION_LENGTH] if answer is not None else None for answer in answers
        ] == self._stems[start : start + BATCH_KEYS]

    def is_at(self, revision: int, answers: list[bytes | None]) -> bool:
        """Always true: redis shows a write once it has acknowledged it."""
        return True

    def texts(self, answers: list[bytes | None]) -> list[str | None]:
        """The decoded values."""
        return [None if answer is None else answer.decode() for answer in answers]


class RedisClient(RedisValues):
    """redis-py over a pool of some connections.

    `waits` makes look-ups wait for a connection; without it the pool must have one for each
    look-up in flight.
    """

    def __init__(
        self, name: str, dataset: Dataset, port: int, *, connections: int, waits: bool = True
    ) -> None:
        super().__init__(dataset)
        self.name = name
        self._connections = connections
        self._waits = waits
        self._port = port
        self._keys = dataset.keys
        self._missing_keys = dataset.missing_keys

    async def __aenter__(self) -> Self:
        pool = (
            BlockingConnectionPool(port=self._port, max_connections=self._connections, timeout=60)
            if self._waits
            else ConnectionPool(port=self._port, max_connections=self._connections)
        )
        self._client = Redis.from_pool(pool)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._client.aclose()

    def get(self, number: int) -> Awaitable[Any]:
        """GET."""
        return self._client.get(self._keys[number])

    def get_missing(self, number: int) -> Awaitable[Any]:
        """GET."""
        return self._client.get(self._missing_keys[number])

    def get_many(self, start: int) -> Awaitable[Any]:
        """MGET."""
        return self._client.mget(self._keys[start : start + BATCH_KEYS])


class BestRedisPool:
    """A load generator of redis-py that uses the fastest pool of each kind of loop.

    The first loop of an operation with a number in flight is preceded by a search: short loops
    over every size of `POOL_SIZES` below that number, and over one connection per look-up.
    """

    operations = frozenset(Operation)

    def __init__(self, name: str, dataset: Dataset, port: int) -> None:
        self.name = name
        self.sizes: dict[tuple[Operation, int], int] = {}
        """The connections of the best pool, by operation and look-ups in flight."""
        self._dataset = dataset
        self._port = port

    async def closed_loop(
        self, operation: Operation, in_flight: int, *, warm_up_s: float, seconds: float
    ) -> LoopSample:
        """Runs one closed loop over the best pool."""
        loop = operation, in_flight
        if loop not in self.sizes:
            rates: dict[int, float] = defaultdict(float)
            for _ in range(_PASSES):
                for size in (*(size for size in POOL_SIZES if size < in_flight), in_flight):
                    sample = await self._run(
                        operation, in_flight, size, warm_up_s=warm_up_s / 2, seconds=seconds / 4
                    )
                    rates[size] += sample.per_second
            self.sizes[loop] = max(rates, key=rates.__getitem__)
        return await self._run(
            operation, in_flight, self.sizes[loop], warm_up_s=warm_up_s, seconds=seconds
        )

    async def check_all(self, truth: list[str], revision: int) -> None:
        """Compares all values, over one connection."""
        async with RedisClient(self.name, self._dataset, self._port, connections=1) as client:
            await AsyncioLoadGenerator(client, self._dataset).check_all(truth, revision)

    async def _run(
        self,
        operation: Operation,
        in_flight: int,
        connections: int,
        *,
        warm_up_s: float,
        seconds: float,
    ) -> LoopSample:
        async with RedisClient(
            self.name,
            self._dataset,
            self._port,
            connections=connections,
            waits=connections < in_flight,
        ) as client:
            return await AsyncioLoadGenerator(client, self._dataset).closed_loop(
                operation, in_flight, warm_up_s=warm_up_s, seconds=seconds
            )
