"""The clients that look up sums: ours and redis-py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from redis.asyncio import Redis

from benchmarks.streaming.own_variants import QUERYABLE_NAME
from queryable_state.client import QueryableStateClient
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from queryable_state.client import KvState, Scan, Tls


class Client(Protocol):
    """A client of one job's sums; `async with` opens and closes it."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    def get(self, number: int) -> Awaitable[object]:
        """Looks up one key."""
        ...

    def sums(self, answer: Any) -> tuple[int, int] | None:
        """Count and total of an answer; None for a missing key."""
        ...

    async def get_all(self) -> list[tuple[int, int] | None]:
        """Count and total of every key, by number."""
        ...


class OwnClient:
    """Our client, direct to the owner after one look-up at its proxy."""

    def __init__(
        self,
        keys: Sequence[str],
        address: str,
        job_id: str,
        *,
        tls: Tls | bool = False,
        token: str | None = None,
    ) -> None:
        self._keys = keys
        self._job_id = job_id
        self._client = QueryableStateClient(
            *host_and_port(address), timeout_s=30.0, tls=tls, token=token
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._client.__aexit__(*exc_info)

    def get(self, number: int) -> Awaitable[KvState]:
        return self._client.get_kv_state(self._job_id, QUERYABLE_NAME, self._keys[number])

    def sums(self, answer: KvState | None) -> tuple[int, int] | None:
        if answer is None:
            return None
        count, total = answer.get()
        return count, total

    def scan(self) -> Scan:
        """A scan of all keys."""
        return self._client.scan(self._job_id, QUERYABLE_NAME)

    async def get_all(self) -> list[tuple[int, int] | None]:
        states = await self._client.get_kv_states(self._job_id, QUERYABLE_NAME, list(self._keys))
        return [self.sums(state) for state in states]


class RedisClient:
    """redis-py's asyncio client with hiredis: one connection per look-up in flight."""

    def __init__(self, keys: Sequence[str], port: int) -> None:
        self._keys = keys
        self._client = Redis(port=port, max_connections=4096)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._client.aclose()

    def get(self, number: int) -> Awaitable[Any]:
        return self._client.get(self._keys[number])

    def sums(self, answer: bytes | None) -> tuple[int, int] | None:
        if answer is None:
            return None
        count, total = answer.split(b" ")
        return int(count), int(total)

    async def get_all(self) -> list[tuple[int, int] | None]:
        answers: list[Any] = await self._client.mget(self._keys)
        return [self.sums(answer) for answer in answers]
