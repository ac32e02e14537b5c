"""Redis as an asyncio process asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from redis.asyncio import BlockingConnectionPool, Redis

from benchmarks.query.dataset import BATCH_KEYS, REVISION_LENGTH

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from benchmarks.query.dataset import Dataset


class RedisPeer:
    """redis-py's asyncio client: a connection for each await in flight, or a few to wait for.

    The few are the better choice from some hundred awaits on, the worse one below.
    """

    def __init__(self, name: str, dataset: Dataset, port: int, *, connections: int = 0) -> None:
        self.name = name
        self._connections = connections
        self._dataset = dataset
        self._port = port
        self._keys = dataset.keys
        self._missing_keys = dataset.missing_keys
        self._stems = dataset.raw_stems

    async def __aenter__(self) -> Self:
        if self._connections:
            pool = BlockingConnectionPool(
                port=self._port, max_connections=self._connections, timeout=60
            )
            self._client = Redis.from_pool(pool)
        else:
            self._client = Redis(port=self._port, max_connections=4096)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._client.aclose()

    def ask(self, number: int) -> Awaitable[Any]:
        """GET."""
        return self._client.get(self._keys[number])

    def is_right(self, number: int, answer: bytes | None) -> bool:
        """Whether the answer begins as the key's value does."""
        return answer is not None and answer[:-REVISION_LENGTH] == self._stems[number]

    def ask_missing(self, number: int) -> Awaitable[Any]:
        """GET."""
        return self._client.get(self._missing_keys[number])

    def is_missing(self, number: int, answer: object) -> bool:
        """Whether it is None."""
        return answer is None

    def ask_many(self, start: int) -> Awaitable[Any]:
        """MGET."""
        return self._client.mget(self._keys[start : start + BATCH_KEYS])

    def are_right(self, start: int, answers: list[bytes | None]) -> bool:
        """Whether each answer begins as its key's value does."""
        return [
            answer[:-REVISION_LENGTH] if answer is not None else None for answer in answers
        ] == self._stems[start : start + BATCH_KEYS]

    def is_at(self, revision: int, answers: list[bytes | None]) -> bool:
        """Always: redis shows a write when it has answered it."""
        return True

    def texts(self, answers: list[bytes | None]) -> list[str | None]:
        """Decoded."""
        return [None if answer is None else answer.decode() for answer in answers]
