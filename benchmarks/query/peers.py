"""Who is asked, and how: each peer answers single keys and hundreds of keys at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from redis.asyncio import BlockingConnectionPool, Redis

from benchmarks.query.dataset import BATCH_KEYS, QUERYABLE_NAME, REVISION_LENGTH
from queryable_state.client import QueryableStateClient

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from types import TracebackType

    from benchmarks.query.dataset import Dataset
    from queryable_state.client import KvState


class Peer(Protocol):
    """A client of one server; `async with` opens and closes it."""

    name: str

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def ask(self, number: int) -> Awaitable[object]:
        """Asks for one key."""
        ...

    def is_right(self, number: int, answer: Any) -> bool:
        """Whether the answer is the key's, at any revision."""
        ...

    def ask_many(self, start: int) -> Awaitable[object]:
        """Asks for `BATCH_KEYS` keys from a number on."""
        ...

    def are_right(self, start: int, answers: Any) -> bool:
        """Whether all of them are right."""
        ...

    def is_at(self, revision: int, answers: Any) -> bool:
        """Whether an answer to `ask_many` was read at a revision or a later one."""
        ...

    def texts(self, answers: Any) -> list[str | None]:
        """The values of an answer to `ask_many`; None where there is none."""
        ...


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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    def ask(self, number: int) -> Awaitable[Any]:
        """GET."""
        return self._client.get(self._keys[number])

    def is_right(self, number: int, answer: bytes | None) -> bool:
        """Whether the answer begins as the key's value does."""
        return answer is not None and answer[:-REVISION_LENGTH] == self._stems[number]

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


class StatePeer:
    """Our client against one proxy, with or without going on to the owners directly."""

    def __init__(
        self, name: str, dataset: Dataset, *, address: str, job_id: str, direct: bool
    ) -> None:
        self.name = name
        self._host, _, self._port = address.rpartition(":")
        self._job_id = job_id
        self._direct = direct
        self._keys = dataset.keys
        self._stems = dataset.stems

    async def __aenter__(self) -> Self:
        self._client = QueryableStateClient(
            self._host, int(self._port), timeout_s=30.0, direct=self._direct
        )
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    def ask(self, number: int) -> Awaitable[KvState]:
        """`get_kv_state`."""
        return self._client.get_kv_state(self._job_id, QUERYABLE_NAME, self._keys[number])

    def is_right(self, number: int, answer: KvState) -> bool:
        """Whether the decoded value begins as the key's does."""
        return bool(answer.value()[:-REVISION_LENGTH] == self._stems[number])

    def ask_many(self, start: int) -> Awaitable[list[KvState | None]]:
        """`get_kv_states`."""
        return self._client.get_kv_states(
            self._job_id, QUERYABLE_NAME, self._keys[start : start + BATCH_KEYS]
        )

    def are_right(self, start: int, answers: list[KvState | None]) -> bool:
        """Whether each decoded value begins as its key's does."""
        return [
            answer.value()[:-REVISION_LENGTH] if answer is not None else None for answer in answers
        ] == self._stems[start : start + BATCH_KEYS]

    def is_at(self, revision: int, answers: list[KvState | None]) -> bool:
        """Whether every value was read at the batch of the revision or a later one."""
        return all(answer is not None and answer.info.version >= revision for answer in answers)

    def texts(self, answers: list[KvState | None]) -> list[str | None]:
        """The decoded values."""
        return [None if answer is None else answer.value() for answer in answers]
