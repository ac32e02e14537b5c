"""The open watches of one job on this server, and what a commit does for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from queryable_state.server.state_server.watches.old_values import OldValueReads, WatchedChanges
from queryable_state.server.storage.store import NOTHING_COMMITTED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.watches.change_history import BatchChanges
    from queryable_state.server.state_server.watches.old_values import Touched
    from queryable_state.wire.keys.key_end import KeyEnd

# Batches whose old values are being read at once. Those of further batches are unknown: watches
# must not make a store keep more old versions.
_MOST_READS = 4


class OpenWatch(Protocol):
    """A watch of one state; `StateWatch` is one."""

    @property
    def query(self) -> WatchQuery:
        """What it watches."""
        ...

    @property
    def background(self) -> BackgroundThread:
        """The thread on which old values are read."""
        ...

    @property
    def key_end(self) -> KeyEnd:
        """Finds the end of encoded keys of the state."""
        ...

    def wake(self) -> None:
        """Makes it check its ownership and its position."""
        ...

    def batches_ready(self, before: int, ready: int, touched: Collection[bytes] | None) -> None:
        """Called for the batches above `before` up to `ready`.

        `touched` are the watched keys that they change; None: any may be.
        """
        ...


class JobWatches:
    """Wakes the watches of a job after each commit. Event loop only.

    The background thread first reads the old values of the watched records. The commit does not
    wait for it; a batch is `ready` for watches once its old values, and those of all batches
    before it, are read.
    """

    def __init__(self) -> None:
        self.ready = NOTHING_COMMITTED
        """The newest batch that watches may send."""
        self._committed = NOTHING_COMMITTED
        self._by_state: dict[int, dict[OpenWatch, int]] = {}
        """The watches of each state, and the newest committed batch when each was added."""
        self._reads: dict[int, asyncio.Task[None]] = {}
        """Reads of old values, by batch."""
        self._touched: dict[int, Touched] = {}
        """What the batches above `ready` changed; without an entry: nothing that was watched."""

    def __bool__(self) -> bool:
        return bool(self._by_state)

    @property
    def state_ids(self) -> frozenset[int]:
        """The states that are watched."""
        return frozenset(self._by_state)

    def add(self, watch: OpenWatch, committed_version: int) -> None:
        """Wakes a watch from now on."""
        # Newer than the last call of `committed` if there were no watches since.
        self._committed = committed_version
        if not self._reads:
            self.ready = committed_version
        self._by_state.setdefault(watch.query.state_id, {})[watch] = committed_version

    def discard(self, watch: OpenWatch) -> None:
        """Forgets a watch; idempotent."""
        watches = self._by_state.get(watch.query.state_id)
        if watches is not None:
            watches.pop(watch, None)
            if not watches:
                del self._by_state[watch.query.state_id]

    def wake(self) -> None:
        """Wakes every watch to check again whether this server may send changes."""
        for watches in self._by_state.values():
            for watch in watches:
                watch.wake()

    def committed(self, version: int, changes: Sequence[tuple[OwnedSubtask, BatchChanges]]) -> None:
        """Called after each commit while there are watches, in the same turn of the loop."""
        self._committed = version
        watched = [
            WatchedChanges(subtask, batch, state_id, _keys_of(watches), next(iter(watches)).key_end)
            for subtask, batch in changes
            for state_id in batch.overlay.states
            if (watches := self._by_state.get(state_id))
        ]
        if watched:
            self._touched[version] = dict.fromkeys(each.state_id for each in watched)
            if len(self._reads) < _MOST_READS:
                background = next(iter(self._by_state[watched[0].state_id])).background
                reads = OldValueReads(watched, background)
                self._reads[version] = asyncio.ensure_future(self._read(version, reads))
        self._publish()

    async def _read(self, version: int, reads: OldValueReads) -> None:
        try:
            self._touched[version] = await reads.run()
        finally:
            del self._reads[version]
            self._publish()

    def _publish(self) -> None:
        """Makes the batches below the first one that is being read ready."""
        before = self.ready
        ready = max(before, min(self._reads, default=self._committed + 1) - 1)
        if ready == before:
            return
        self.ready = ready
        batches = [self._touched.pop(each) for each in sorted(self._touched) if each <= ready]
        for state_id, watches in self._by_state.items():
            touched = _union([each[state_id] for each in batches if state_id in each])
            for watch, added in watches.items():
                # The reads did not look for the keys of a watch that was added behind the commit.
                watch.batches_ready(before, ready, touched if added <= before else None)


def _union(found: Sequence[set[bytes] | None]) -> set[bytes] | None:
    """The keys that any of some batches changes; None: any may be."""
    union: set[bytes] = set()
    for each in found:
        if each is None:
            return None
        union |= each
    return union


def _keys_of(watches: Collection[OpenWatch]) -> frozenset[bytes] | None:
    """The keys that any of the watches covers; None: all."""
    if not all(watch.query.keys for watch in watches):
        return None
    return frozenset(key for watch in watches for key in watch.query.keys)
