"""Reader of the states of a Spark query, which loads partitions when they are first asked for."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import aclosing
from typing import TYPE_CHECKING

from queryable_state.server.native_state.server.any_partition import (
    changes_of_keys,
    watch_of_every_key,
)
from queryable_state.server.state_server.queries.versions import RequestedVersion
from queryable_state.v1 import hot_keys_pb2, query_pb2, watch_pb2
from queryable_state.wire.errors import PlacementError, QueryableStateError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from queryable_state.server.native_state.server.served_query import ServedQuery
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.server.state_server.queries.state_reader import StateReader

_MOVED_RETRY_MS = 200

# The part of a query's deadline spent waiting, so that the client receives the reason in time.
_WAITING_PART = 0.9


class NativeReader:
    """An `Engine` over the stores of a `ServedQuery`.

    A query of a partition that is not loaded waits for it within its deadline. Spark shows nobody
    what it has not committed, so uncommitted reads get the committed state.
    """

    def __init__(
        self, served: ServedQuery, reader: StateReader, *, default_deadline_ms: int
    ) -> None:
        self._served = served
        self._reader = reader
        self._default_deadline_ms = default_deadline_ms

    def look_up(self, query: query_pb2.Query) -> bytes | None:
        """The answer to a query of one key; None if `answer` has to answer it."""
        return self._reader.look_up(query) if self._may_answer(query) else None

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """The whole answer, None if it takes `answer_later`. Errors are in the answer."""
        return self._reader.answer(query) if self._may_answer(query) else None

    def _may_answer(self, query: query_pb2.Query) -> bool:
        """True if the newest version that is loaded answers the query, whatever its keys are."""
        served = self._served
        if served.refusal is not None or served.taken_back is not None:
            return False
        if not served.is_whole or query.consistency or query.state_id in served.unserved:
            return False
        if query.partitions or (query.state_id in served.unplaced and not served.is_alone):
            return False
        return not (query.min_version or query.max_staleness_ms or query.HasField("at_version"))

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        """The whole answer to any query. Never raises."""
        try:
            requested = RequestedVersion.of(query)
            self._served.check(requested)
            self._served.check_state(query.state_id)
            self._check_partitions(query)
            await self._load(query.state_id, _groups(query.keys), query.deadline_ms)
        except QueryableStateError as problem:
            return query_pb2.Answer(id=query.id, last=True, error=problem.to_proto())
        if query.consistency != query_pb2.COMMITTED:
            committed = query_pb2.Query()
            committed.CopyFrom(query)
            committed.consistency = query_pb2.COMMITTED
            query = committed
        return await self._reader.answer_later(query)

    async def scan(self, query: ScanQuery) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """Scans the keys of a range."""
        self._served.check(RequestedVersion.of_scan(query))
        groups = [group for run in query.runs for group in range(run.first, run.last + 1)]
        await self._load(query.state_id, groups, query.page_timeout_ms)
        query = dataclasses.replace(query, consistency=query_pb2.COMMITTED)
        async with aclosing(self._reader.scan(query)) as messages:
            async for message in messages:
                yield message

    async def watch(
        self, query: WatchQuery
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """The committed changes of keys of a state."""
        self._served.check_watch()
        whole = query
        if query.keys and query.state_id in self._served.unplaced:
            whole = watch_of_every_key(query, self._served.unplaced[query.state_id])
        groups = _groups(whole.keys) or {
            group for run in whole.groups for group in range(run.first, run.last + 1)
        }
        await self._load(query.state_id, groups, 0)
        found = self._reader.watch(whole)
        async with aclosing(found if whole is query else changes_of_keys(query, found)) as messages:
            async for message in messages:
                yield message

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        """Estimates the size of the partitions that are loaded."""
        self._served.check(None)
        self._served.check_state(state_id)
        return [] if self._is_unloaded(state_id) else await self._reader.measure(state_id)

    def hot_keys(self, state_id: int, limit: int) -> hot_keys_pb2.ListHotKeysResponse:
        """The keys of a state that queries asked for most often."""
        self._served.check(None)
        self._served.check_state(state_id)
        if self._is_unloaded(state_id):
            return hot_keys_pb2.ListHotKeysResponse()
        return self._reader.hot_keys(state_id, limit)

    def _check_partitions(self, query: query_pb2.Query) -> None:
        """Raises unless a query of keys that may be in any partition names all of this server."""
        served = self._served
        if not query.partitions and (served.is_alone or query.state_id not in served.unplaced):
            return
        own = served.partitions_of(query.state_id)
        if list(query.partitions) != own:
            raise PlacementError(
                f"this server has the partitions {_listed(own)} of the state, not "
                f"{_listed(query.partitions)}: start every server with the same list (--servers)",
                retry_after_ms=_MOVED_RETRY_MS,
                placement_version=served.placement_version,
            )

    def _is_unloaded(self, state_id: int) -> bool:
        """True while no partition of a state is loaded that will be once it is asked for."""
        return not self._served.is_whole and self._reader.registration(state_id) is None

    async def _load(self, state_id: int, groups: Iterable[int], deadline_ms: int) -> None:
        """Waits until these partitions of a state are loaded, as far as this server has them.

        Raises if a file of the state is damaged or lost.
        """
        served = self._served
        served.check_state(state_id)
        if served.is_whole:
            return
        timeout_s = (deadline_ms or self._default_deadline_ms) * _WAITING_PART / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await served.load(state_id, groups)
        except TimeoutError:
            raise RetryLaterError(
                f"the partitions of the query are not loaded after {timeout_s:g} s "
                f"({served.progress}): ask again, or with a longer deadline",
                retry_after_ms=500,
            ) from None
        served.check_state(state_id)


def _groups(keys: Iterable[bytes]) -> set[int]:
    return {key[0] << 8 | key[1] for key in keys if len(key) >= 2}


def _listed(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions)) or "(none)"
