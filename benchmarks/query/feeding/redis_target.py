"""The writing side of redis: one `MSET` per commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from benchmarks.query.dataset import Dataset

CHUNK = 10_000


class RedisTarget:
    """A connection to a redis-server."""

    def __init__(self, port: int, dataset: Dataset) -> None:
        self._port = port
        self._dataset = dataset
        self._connection = redis.Redis(port=port)

    def describe(self) -> dict[str, object]:
        """Port and version of the server."""
        server = self._connection.info("server")
        return {"port": self._port, "version": server["redis_version"]}

    def write(self, revision: int, numbers: list[int]) -> None:
        """Writes keys at a revision, the whole dataset in several commands."""
        for start in range(0, len(numbers), CHUNK):
            chunk = numbers[start : start + CHUNK]
            self._connection.mset(
                {self._dataset.keys[n]: self._dataset.value(n, revision) for n in chunk}
            )
