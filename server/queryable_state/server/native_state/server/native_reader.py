"""Reader of the states of a Spark query, which loads partitions when they are first asked for."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import aclosing
from typing import TYPE_CHECKING

from queryable_state.server.native_state.server.batch_facts import STRICT_DISTRIBUTION
from queryable_state.server.query.scan_query import KeyGroupRun
from queryable_state.server.state_server.queries.requested_version import RequestedVersion
from queryable_state.v1 import hot_keys_pb2, query_pb2, watch_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.keys.store_keys import changed_record_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from queryable_state.server.native_state.server.served_query import ServedQuery
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.server.state_server.queries.state_reader import StateReader

_MESSAGE_CHANGES = 512

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

    def answer(self, query: query_pb2.Query) -> query_pb2.Answer | None:
        """The whole answer, None if it takes `answer_later`. Errors are in the answer."""
        served = self._served
        if served.refusal is not None or served.taken_back is not None:
            return None
        if not served.is_whole or query.consistency:
            return None
        if not served.is_alone and not self._is_placed_by_hash(query.state_id):
            return None
        if query.min_version or query.max_staleness_ms or query.HasField("at_version"):
            return None
        return self._reader.answer(query)

    async def answer_later(self, query: query_pb2.Query) -> query_pb2.Answer:
        """The whole answer to any query. Never raises."""
        try:
            requested = RequestedVersion.of(query)
            self._served.check(requested)
            if not self._served.is_alone:
                self._check_placement(query.state_id, "look-ups by key on several servers")
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
        whole: WatchQuery | None = None
        if query.keys and not self._is_placed_by_hash(query.state_id):
            if not self._served.is_alone:
                self._check_placement(query.state_id, "watches of keys on several servers")
            partitions = self._partitions(query.state_id)
            whole = dataclasses.replace(
                query, keys=(), groups=(KeyGroupRun(0, partitions - 1),), after_change=b""
            )
        groups = _groups(query.keys) or {
            group for run in query.groups for group in range(run.first, run.last + 1)
        }
        await self._load(query.state_id, groups, 0)
        found = self._reader.watch(whole or query)
        async with aclosing(found if whole is None else _of_keys(query, found)) as messages:
            async for message in messages:
                yield message

    async def measure(self, state_id: int) -> list[query_pb2.StatePart]:
        """Estimates the size of the partitions that are loaded."""
        self._served.check(None)
        return [] if self._is_unloaded(state_id) else await self._reader.measure(state_id)

    def hot_keys(self, state_id: int, limit: int) -> hot_keys_pb2.ListHotKeysResponse:
        """The keys of a state that queries asked for most often."""
        self._served.check(None)
        if self._is_unloaded(state_id):
            return hot_keys_pb2.ListHotKeysResponse()
        return self._reader.hot_keys(state_id, limit)

    def _is_placed_by_hash(self, state_id: int) -> bool:
        """True if the hash of a whole key is its partition; also for an unknown state."""
        return not any(
            state_id in each.registrations and not each.placed_by_hash
            for each in self._served.states.operators
        )

    def _check_placement(self, state_id: int, what: str) -> None:
        if not self._is_placed_by_hash(state_id):
            raise InvalidRequestError(
                f"{what} in {self._served.uri}: {STRICT_DISTRIBUTION} is not true in its "
                "offset log, so Spark does not place keys by their hash: use a scan, or for "
                "look-ups one server of all partitions (without --servers)",
                reason=Reason.UNSUPPORTED,
            )

    def _partitions(self, state_id: int) -> int:
        """The number of partitions of a state."""
        return next(
            each.partitions
            for each in self._served.states.operators
            if state_id in each.registrations
        )

    def _is_unloaded(self, state_id: int) -> bool:
        """True while no partition of a state is loaded that will be once it is asked for."""
        return not self._served.is_whole and self._reader.registration(state_id) is None

    async def _load(self, state_id: int, groups: Iterable[int], deadline_ms: int) -> None:
        """Waits until these partitions of a state are loaded, as far as this server has them."""
        served = self._served
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


async def _of_keys(
    query: WatchQuery, found: AsyncGenerator[watch_pb2.WatchKvStateResponse, None]
) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
    """The changes of the keys of a watch, of the messages of a watch of all keys.

    A change is found with the partition that Spark chose, and gets the key group of the key as it
    is watched. It is part of the store key by which the changes of a batch are ordered, so they
    are ordered anew once the batch is complete.
    """
    watched = {key[2:]: key for key in query.keys}
    first = -1 if query.after_batch is None else query.after_batch + 1
    changes: dict[bytes, watch_pb2.KvChange] = {}
    async with aclosing(found) as messages:
        async for message in messages:
            for change in message.changes:
                key = watched.get(change.key[2:])
                if key is not None:
                    change.key = key
                    changes[changed_record_key(change)] = change
            if message.changes and not message.complete:
                continue
            del message.changes[:]
            after = query.after_change if message.batch == first else b""
            ordered = [changes[each] for each in sorted(changes) if each > after]
            changes = {}
            while len(ordered) > _MESSAGE_CHANGES:
                part = watch_pb2.WatchKvStateResponse()
                part.CopyFrom(message)
                part.complete = False
                part.changes.extend(ordered[:_MESSAGE_CHANGES])
                del ordered[:_MESSAGE_CHANGES]
                yield part
            message.changes.extend(ordered)
            yield message


def _groups(keys: Iterable[bytes]) -> set[int]:
    return {key[0] << 8 | key[1] for key in keys if len(key) >= 2}
