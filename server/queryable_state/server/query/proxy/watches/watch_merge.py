"""Watch of a proxy: the changes of all owners, merged in the order of batches and store keys."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.server.query.proxy.watches.watch_part import WatchPart
from queryable_state.server.query.retries import OWNERS
from queryable_state.server.query.scan_query import KeyGroupRun
from queryable_state.server.query.watch_query import HEARTBEAT_S
from queryable_state.v1 import watch_pb2
from queryable_state.wire.calls.retrying import Attempts
from queryable_state.wire.errors import QueryableStateError, QueryTimeoutError, RetryLaterError
from queryable_state.wire.keys.store_keys import changed_record_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from queryable_state.server.query.proxy.scan_owners import ScanOwners
    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.wire.located_state import LocatedState, Owner

# How long the owners of a watch may be away; a failover takes less.
_RETRY_S = 30.0

_MESSAGE_CHANGES = 512


class MergedWatch:
    """Watches the key groups of each owner, and merges their changes.

    A batch is complete once every owner has sent it, and its changes arrive in the order of their
    store keys. So (batch, store key) is a position that is valid for all owners: when one of them
    is lost, all parts are opened again behind it, at the owners of then.
    """

    def __init__(self, query: WatchQuery, located: LocatedState, owners: ScanOwners) -> None:
        self._query = query
        self._located = located
        self._owners = owners
        self._loop = asyncio.get_running_loop()
        self._batch = query.after_batch
        """Every change up to this batch is yielded; None: the watch is not open yet."""
        self._after_change = query.after_change
        self._gap_until = -1
        self._is_open = False
        self._sent_s = 0.0
        self._ttl_ms = 0
        self._attempts: Attempts | None = None
        """Attempts to open the parts again; None: they are open."""

    async def messages(self) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """The messages of the watch, once; closing the generator ends it at every owner."""
        try:
            while True:
                try:
                    parts = self._open_parts()
                    try:
                        async for message in self._merged(parts):
                            self._sent_s = self._loop.time()
                            yield message
                    finally:
                        for part in parts:
                            await part.aclose()
                except QueryableStateError as refusal:
                    await self._pause_after(refusal)
        finally:
            await self._owners.aclose()

    async def _pause_after(self, refusal: QueryableStateError) -> None:
        """Waits until the owners may be asked again; raises the refusal if that does not help."""
        if self._attempts is None:
            until_s = self._loop.time() + _RETRY_S
            self._attempts = Attempts(OWNERS, until_s, self._loop.time)
        delay_s = self._attempts.delay_s(refusal)
        if delay_s is None:
            raise self._attempts.final(refusal) from refusal
        await asyncio.sleep(delay_s)
        try:
            self._located = await self._owners.refreshed(self._located)
        except (RetryLaterError, QueryTimeoutError):
            # Without the coordinator the watch retries the known owners.
            return

    def _open_parts(self) -> list[WatchPart]:
        query, located = self._query, self._located
        shares = self._shares()
        return [
            WatchPart(
                owner,
                self._owners.watch(
                    owner,
                    located,
                    replace(
                        share,
                        after_batch=self._batch,
                        after_change=self._after_change,
                        placement_version=located.placement_version,
                        every_batch=query.every_batch or len(shares) > 1,
                    ),
                ),
            )
            for owner, share in shares
        ]

    def _shares(self) -> list[tuple[Owner, WatchQuery]]:
        """Each owner and its part of the keys or key groups."""
        query, located = self._query, self._located
        if query.keys:
            return [
                (owner, replace(query, keys=tuple(query.keys[index] for index in indexes)))
                for owner, indexes in located.split(query.keys).items()
            ]
        runs: dict[Owner, list[KeyGroupRun]] = {}
        for run in query.groups:
            for group in range(run.first, run.last + 1):
                owned = runs.setdefault(located.by_key_group[group], [])
                if owned and owned[-1].last == group - 1:
                    owned[-1] = KeyGroupRun(owned[-1].first, group)
                else:
                    owned.append(KeyGroupRun(group, group))
        return [(owner, replace(query, groups=tuple(owned))) for owner, owned in runs.items()]

    async def _merged(
        self, parts: Sequence[WatchPart]
    ) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """Yields the messages of parts that begin at the watch's position."""
        while not all(part.head for part in parts):
            await self._next_heads(parts, None)
        self._attempts = None
        opened = [part.head for part in parts if part.head is not None]
        self._ttl_ms = opened[0].ttl_ms
        newest = max(opened, key=lambda head: head.batch)
        if self._batch is None:
            self._batch = newest.batch
        if not self._is_open:
            self._is_open = True
            yield watch_pb2.WatchKvStateResponse(
                batch=self._batch,
                commit_time_ms=newest.commit_time_ms if newest.batch == self._batch else 0,
                complete=True,
                ttl_ms=self._ttl_ms,
            )
        while True:
            for part in parts:
                gap = self._take(part)
                if gap is not None:
                    yield gap
            batch_id = min(
                (part.head.batch for part in parts if part.head is not None), default=None
            )
            if batch_id is not None and all(
                part.done >= batch_id or (part.head is not None and part.head.batch == batch_id)
                for part in parts
            ):
                for message in self._batch_messages(parts, batch_id):
                    self._batch, self._after_change = batch_id - 1, b""
                    if message.complete:
                        self._batch = batch_id
                    elif message.changes:
                        self._after_change = changed_record_key(message.changes[-1])
                    yield message
                continue
            done = min(part.done for part in parts)
            left_s = self._sent_s + HEARTBEAT_S - self._loop.time()
            if done > self._batch:
                if self._after_change:
                    # The end of a batch of which the watch has sent changes.
                    left_s = 0
                self._batch, self._after_change = done, b""
            if left_s <= 0:
                yield watch_pb2.WatchKvStateResponse(
                    batch=self._batch, complete=not self._after_change, ttl_ms=self._ttl_ms
                )
                continue
            await self._next_heads(parts, left_s)

    def _take(self, part: WatchPart) -> watch_pb2.WatchKvStateResponse | None:
        """Uses up a head without changes, and changes before the start of the watch.

        Returns the gap that it tells of, if the watch has not told of it yet.
        """
        assert self._batch is not None
        head = part.head
        if head is None:
            return None
        if head.changes and head.batch > self._batch:
            return None
        part.read_on()
        if not head.HasField("gap"):
            return None
        first = max(head.gap.first_batch, self._gap_until + 1, self._batch + 1)
        part.done = max(part.done, head.gap.last_batch)
        if first > head.gap.last_batch:
            return None
        self._gap_until = head.gap.last_batch
        gap = watch_pb2.WatchGap(first_batch=first, last_batch=head.gap.last_batch)
        return watch_pb2.WatchKvStateResponse(batch=self._batch, gap=gap)

    def _batch_messages(
        self, parts: Sequence[WatchPart], batch_id: int
    ) -> list[watch_pb2.WatchKvStateResponse]:
        """The changes of a batch that no later message of a part precedes."""
        if len(parts) == 1 and (whole := parts[0].head) is not None:
            # An owner's messages are complete and in order.
            whole.ttl_ms = self._ttl_ms
            parts[0].read_on()
            return [whole]
        heads = [part for part in parts if part.head is not None and part.head.batch == batch_id]
        last = min(
            (part.positions()[-1] for part in heads if part.head and not part.head.complete),
            default=None,
        )
        found: list[watch_pb2.KvChange] = []
        commit_time_ms = 0
        for part in heads:
            head = part.head
            assert head is not None
            commit_time_ms = head.commit_time_ms
            positions = part.positions()
            count = len(positions)
            if last is not None:
                count = sum(position <= last for position in positions)
            found.extend(head.changes[:count])
            del head.changes[:count]
            if not head.changes:
                part.read_on()
        if len(heads) > 1:
            found.sort(key=changed_record_key)
        messages = [
            watch_pb2.WatchKvStateResponse(
                batch=batch_id,
                commit_time_ms=commit_time_ms,
                changes=found[start : start + _MESSAGE_CHANGES],
                ttl_ms=self._ttl_ms,
            )
            for start in range(0, len(found), _MESSAGE_CHANGES)
        ]
        if messages and all(part.done >= batch_id for part in parts):
            messages[-1].complete = True
        return messages

    async def _next_heads(self, parts: Sequence[WatchPart], timeout_s: float | None) -> None:
        """Waits until a part has its next message; raises what ends a part."""
        reading = [part.reading for part in parts if part.reading is not None]
        await asyncio.wait(reading, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for part in parts:
            part.head  # noqa: B018 - raises the refusal of its owner
