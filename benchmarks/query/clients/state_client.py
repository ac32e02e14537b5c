"""The project's asyncio client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from benchmarks.query.dataset import BATCH_KEYS, QUERYABLE_NAME, REVISION_LENGTH
from queryable_state.client import QueryableStateClient, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from benchmarks.query.dataset import Dataset
    from queryable_state.client import KvState, Tls


class StateClient:
    """`QueryableStateClient` against one proxy; `direct` lets it connect to the owners."""

    def __init__(
        self,
        name: str,
        dataset: Dataset,
        *,
        address: str,
        job_id: str,
        direct: bool,
        tls: Tls | bool = False,
        token: str | None = None,
    ) -> None:
        self._tls, self._token = tls, token
        self.name = name
        self._host, _, self._port = address.rpartition(":")
        self._job_id = job_id
        self._direct = direct
        self._keys = dataset.keys
        self._missing_keys = dataset.missing_keys
        self._stems = dataset.stems

    async def __aenter__(self) -> Self:
        self._client = QueryableStateClient(
            self._host,
            int(self._port),
            timeout_s=30.0,
            direct=self._direct,
            tls=self._tls,
            token=self._token,
        )
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._client.__aexit__(*exc_info)

    def get(self, number: int) -> Awaitable[KvState]:
        """`get_kv_state`."""
        return self._client.get_kv_state(self._job_id, QUERYABLE_NAME, self._keys[number])

    def is_right(self, number: int, answer: KvState) -> bool:
        """True if the decoded value begins as the key's does."""
        return bool(answer.value()[:-REVISION_LENGTH] == self._stems[number])

    def get_missing(self, number: int) -> Awaitable[KvState]:
        """`get_kv_state`, which raises an error for a missing key."""
        return self._client.get_kv_state(self._job_id, QUERYABLE_NAME, self._missing_keys[number])

    def is_missing(self, number: int, answer: object) -> bool:
        """True if the answer is that error."""
        return isinstance(answer, UnknownKeyOrNamespaceError)

    def get_many(self, start: int) -> Awaitable[list[KvState | None]]:
        """`get_kv_states`."""
        return self._client.get_kv_states(
            self._job_id, QUERYABLE_NAME, self._keys[start : start + BATCH_KEYS]
        )

    def are_right(self, start: int, answers: list[KvState | None]) -> bool:
        """True if each decoded value begins as its key's does."""
        return [
            answer.value()[:-REVISION_LENGTH] if answer is not None else None for answer in answers
        ] == self._stems[start : start + BATCH_KEYS]

    def is_at(self, revision: int, answers: list[KvState | None]) -> bool:
        """True if every value was read at the batch of the revision or a later one."""
        return all(answer is not None and answer.info.version >= revision for answer in answers)

    def texts(self, answers: list[KvState | None]) -> list[str | None]:
        """The decoded values."""
        return [None if answer is None else answer.value() for answer in answers]
