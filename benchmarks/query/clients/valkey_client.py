"""valkey-glide's asyncio client: one multiplexed connection, protocol and I/O in Rust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from glide import GlideClient, GlideClientConfiguration, NodeAddress

from benchmarks.query.clients.redis_client import RedisValues
from benchmarks.query.dataset import BATCH_KEYS

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from benchmarks.query.dataset import Dataset

_TIMEOUT_MS = 60_000
_MOST_IN_FLIGHT = 8192
"""The client refuses more requests in flight; its default is 1,000."""


class ValkeyClient(RedisValues):
    """valkey-glide against a redis-server."""

    def __init__(self, name: str, dataset: Dataset, port: int) -> None:
        super().__init__(dataset)
        self.name = name
        self._port = port
        self._keys = dataset.keys
        self._missing_keys = dataset.missing_keys

    async def __aenter__(self) -> Self:
        self._client = await GlideClient.create(
            GlideClientConfiguration(
                [NodeAddress("127.0.0.1", self._port)],
                request_timeout=_TIMEOUT_MS,
                inflight_requests_limit=_MOST_IN_FLIGHT,
            )
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._client.close()

    def get(self, number: int) -> Awaitable[Any]:
        """GET."""
        return self._client.get(self._keys[number])

    def get_missing(self, number: int) -> Awaitable[Any]:
        """GET."""
        return self._client.get(self._missing_keys[number])

    def get_many(self, start: int) -> Awaitable[Any]:
        """MGET."""
        return self._client.mget([*self._keys[start : start + BATCH_KEYS]])
