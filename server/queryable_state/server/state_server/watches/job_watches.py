"""The open watches of one job on this server, and what a commit does for them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.state_server.watches.old_values import OldValueReads, WatchedChanges
from queryable_state.server.storage.store import NOTHING_COMMITTED

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.watches.change_history import BatchChanges
    from queryable_state.server.state_server.watches.old_values import Touched
    from queryable_state.server.state_server.watches.state_watch import StateWatch

# Batches whose old values are being read at once. Those of further batches are unknown: watches
# must not make a store keep more old versions.
_MOST_READS = 4


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
        self._by_state: dict[int, set[StateWatch]] = {}
        self._reads: dict[int, asyncio.Task[None]] = {}
        """Reads of old values, by batch."""

    def __bool__(self) -> bool:
        return bool(self._by_state)

    def add(self, watch: StateWatch, committed_version: int) -> None:
        """Wakes a watch from now on."""
        if not self._reads:
            self.ready = self._committed = committed_version
        self._by_state.setdefault(watch.query.state_id, set()).add(watch)

    def discard(self, watch: StateWatch) -> None:
        """Forgets a watch; idempotent."""
        watches = self._by_state.get(watch.query.state_id)
        if watches is not None:
            watches.discard(watch)
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
            WatchedChanges(
                subtask, batch, state_id, _keys_of(watches), next(iter(watches)).route.key_end
            )
            for subtask, batch in changes
            for state_id in batch.overlay.states
            if (watches := self._by_state.get(state_id))
        ]
        if not watched:
            self._publish({})
        elif len(self._reads) >= _MOST_READS:
            self._publish(dict.fromkeys(each.state_id for each in watched))
        else:
            background = next(iter(self._by_state[watched[0].state_id])).background
            reads = OldValueReads(watched, background)
            self._reads[version] = asyncio.ensure_future(self._read(version, reads))

    async def _read(self, version: int, reads: OldValueReads) -> None:
        touched: Touched = {}
        try:
            touched = await reads.run()
        finally:
            del self._reads[version]
            self._publish(touched)

    def _publish(self, touched: Touched) -> None:
        """Makes the batches up to the first one that is being read ready."""
        before = self.ready
        self.ready = max(before, min(self._reads, default=self._committed + 1) - 1)
        for state_id, watches in self._by_state.items():
            keys = touched.get(state_id, ())
            for watch in watches:
                watch.batches_ready(before, self.ready, keys)


def _keys_of(watches: Collection[StateWatch]) -> frozenset[bytes] | None:
    """The keys that any of the watches covers; None: all."""
    if not all(watch.query.keys for watch in watches):
        return None
    return frozenset(key for watch in watches for key in watch.query.keys)
