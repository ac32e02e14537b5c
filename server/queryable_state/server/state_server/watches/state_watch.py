"""Watch of this server's part of a state: the changes of committed batches, in order."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from queryable_state.server.query.watch_query import HEARTBEAT_S
from queryable_state.server.state_server.queries.key_reads import not_here
from queryable_state.server.state_server.stores.store_table import NOT_HERE
from queryable_state.server.state_server.watches.watched_records import (
    RecordChanges,
    positions_in,
)
from queryable_state.v1 import watch_pb2
from queryable_state.wire.errors import InvalidRequestError, PlacementError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection

    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.queries.versions import RequestedVersions
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.server.state_server.watches.change_history import BatchChanges
    from queryable_state.wire.keys.key_end import KeyEnd

_MESSAGE_CHANGES = 512
_MESSAGE_BYTES = 256 * 1024

# More records, or more keys in a sorted batch, are searched on the background thread.
_SEARCHED_AT_ONCE = 2048
_KEYS_AT_ONCE = 1024

# Wakes up just after the lease has ended, not just before.
_AFTER_S = 0.001


class StateWatch:
    """Cursor of one watch over the histories of the stores that it covers.

    Iterate `messages` once. A watch whose client is slow costs its cursor: the histories do not
    wait for it, and it sends a gap once they have dropped a batch that it has not sent.
    """

    def __init__(
        self,
        query: WatchQuery,
        table: StoreTable,
        versions: RequestedVersions,
        lease: Lease,
        background: BackgroundThread,
    ) -> None:
        self.query = query
        self.route = versions.route(query.state_id)
        self.background = background
        self._table = table
        self._lease = lease
        self._subtasks = self._owned_subtasks()
        self._job = self.route.job
        self._cursor = 0
        """Everything up to this batch is sent."""
        self._after_change = query.after_change
        self._woken = asyncio.Event()
        self._is_idle = False
        """True while everything up to the newest ready batch is sent."""

    @property
    def key_end(self) -> KeyEnd:
        """Finds the end of encoded keys of the state."""
        return self.route.key_end

    def wake(self) -> None:
        """Makes the watch check its ownership and its position."""
        self._woken.set()

    def batches_ready(self, before: int, ready: int, touched: Collection[bytes] | None) -> None:
        """Called for new batches: `touched` are the watched keys that they change; None: any."""
        concerned = touched is None or any(key in touched for key in self.query.keys)
        if self._is_idle and self._cursor == before and not concerned:
            # They have nothing for this watch, which may stay asleep.
            self._cursor = ready
            if not self.query.every_batch:
                return
        self._woken.set()

    async def messages(self) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """Yields the messages of the watch until the generator is closed.

        Raises `PlacementError` once this server does not own all of its key groups any more.
        """
        loop = asyncio.get_running_loop()
        watches, after = self._job.watches, self.query.after_batch
        committed = self._job.committed_version
        self._cursor = sent = committed if after is None else after
        watches.add(self, committed)
        try:
            yield self._progress()
            sent_s = loop.time()
            while True:
                self._check_owned()
                self._woken.clear()
                if self._cursor < watches.ready:
                    async for message in self._next(watches.ready):
                        sent, sent_s = message.batch, loop.time()
                        yield message
                        self._check_owned()
                elif loop.time() - sent_s >= HEARTBEAT_S or (
                    self.query.every_batch and self._cursor > sent
                ):
                    sent, sent_s = self._cursor, loop.time()
                    yield self._progress()
                else:
                    await self._wait(sent_s + HEARTBEAT_S - loop.time())
        finally:
            watches.discard(self)

    async def _next(self, ready: int) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
        """Yields the changes of the next batch that has some, or a gap; moves the cursor."""
        since = max(subtask.history.since for subtask in self._subtasks)
        if since > self._cursor:
            first, self._cursor, self._after_change = self._cursor + 1, since, b""
            gap = watch_pb2.WatchGap(first_batch=first, last_batch=since)
            yield watch_pb2.WatchKvStateResponse(batch=since, gap=gap)
            return
        parts = self._next_parts(ready)
        if not parts:
            self._cursor = ready
            return
        batch_id, commit_time_ms = parts[0][1].batch_id, parts[0][1].commit_time_ms
        messages = _Messages(batch_id, commit_time_ms, self._ttl_ms)
        for subtask, part in parts:
            changes = RecordChanges(self.route, subtask, part)
            for position in await self._positions(subtask, part):
                if position > self._after_change:
                    full = messages.add(changes, position)
                    if full is not None:
                        yield full
        self._cursor, self._after_change = batch_id, b""
        last = messages.last()
        if last is not None:
            yield last

    def _next_parts(self, ready: int) -> list[tuple[OwnedSubtask, BatchChanges]]:
        """The changes of the first batch behind the cursor that changes the state, by subtask."""
        found = []
        for subtask in self._subtasks:
            for each in subtask.history.after(self._cursor):
                if each.batch_id > ready:
                    break
                if self.query.state_id in each.overlay.states:
                    found.append((subtask, each))
                    break
        first = min((each.batch_id for _, each in found), default=0)
        if first > self._cursor + 1:
            # The position was in a batch before.
            self._after_change = b""
        return [part for part in found if part[1].batch_id == first]

    async def _positions(self, subtask: OwnedSubtask, part: BatchChanges) -> list[bytes]:
        overlay = part.overlay.states[self.query.state_id]
        search = (overlay, self.query, subtask, self.route.key_end)
        is_short = len(overlay.records) <= _SEARCHED_AT_ONCE or (
            0 < len(self.query.keys) <= _KEYS_AT_ONCE
            and overlay.is_sorted
            and len(overlay.cleared) <= _SEARCHED_AT_ONCE
        )
        return (
            positions_in(*search) if is_short else await self.background.run(positions_in, *search)
        )

    def _progress(self) -> watch_pb2.WatchKvStateResponse:
        return watch_pb2.WatchKvStateResponse(
            batch=self._cursor,
            commit_time_ms=self._job.info_at(self._cursor).commit_time_ms,
            complete=True,
            ttl_ms=self._ttl_ms,
        )

    async def _wait(self, timeout_s: float) -> None:
        """Waits until the watch is woken, at most until the lease may have ended."""
        self._is_idle = True
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(timeout_s, self._lease.remaining_s + _AFTER_S)):
                    await self._woken.wait()
        finally:
            self._is_idle = False

    @property
    def _ttl_ms(self) -> int:
        return 0 if self.route.lifetime is None else self.route.lifetime.ttl_ms

    def _owned_subtasks(self) -> list[OwnedSubtask]:
        """The subtasks of the watched key groups; raises unless this server owns all of them."""
        route, query = self.route, self.query
        groups = len(route.slots)
        wanted = {key[0] << 8 | key[1] for key in query.keys} or {
            group for run in query.groups for group in range(run.first, run.last + 1)
        }
        if not all(0 <= group < groups for group in wanted):
            raise InvalidRequestError(
                f"state {route.name!r} has the key groups 0 to {groups - 1}, and the watch names "
                "others"
            )
        slots = {route.slots[group] for group in wanted}
        if NOT_HERE in slots:
            raise not_here(route, route.job.info.server_id, self._lease.placement_version)
        subtasks = (route.subtasks[slot] for slot in slots)
        return sorted(subtasks, key=lambda subtask: subtask.first_key_group)

    def _check_owned(self) -> None:
        self._lease.check()
        for subtask in self._subtasks:
            if self._table.subtask(subtask.id) is not subtask:
                raise PlacementError(
                    f"{subtask.id} was moved away from this server while it was watched: continue "
                    "at its new owner behind the last batch",
                    placement_version=self._lease.placement_version,
                )


async def watched(
    query: WatchQuery,
    table: StoreTable,
    versions: RequestedVersions,
    lease: Lease,
    background: BackgroundThread,
) -> AsyncGenerator[watch_pb2.WatchKvStateResponse, None]:
    """The messages of a watch; raises its refusal before the first one."""
    watch = StateWatch(query, table, versions, lease, background)
    async with aclosing(watch.messages()) as messages:
        async for message in messages:
            yield message


class _Messages:
    """Messages of bounded size with the changes of one batch."""

    def __init__(self, batch_id: int, commit_time_ms: int, ttl_ms: int) -> None:
        self._empty = watch_pb2.WatchKvStateResponse(
            batch=batch_id, commit_time_ms=commit_time_ms, ttl_ms=ttl_ms
        )
        self._has_some = False
        self._begin()

    def add(self, changes: RecordChanges, position: bytes) -> watch_pb2.WatchKvStateResponse | None:
        """Adds the change at a position, if it is visible; returns a message once it is full."""
        added = changes.add_to(self._message, position)
        if not added:
            return None
        self._has_some = True
        self._bytes += added
        if len(self._message.changes) < _MESSAGE_CHANGES and self._bytes < _MESSAGE_BYTES:
            return None
        full = self._message
        self._begin()
        return full

    def last(self) -> watch_pb2.WatchKvStateResponse | None:
        """The message that completes the batch; None if nothing was added."""
        if not self._has_some:
            return None
        self._message.complete = True
        return self._message

    def _begin(self) -> None:
        self._bytes = 0
        self._message = watch_pb2.WatchKvStateResponse()
        self._message.CopyFrom(self._empty)
