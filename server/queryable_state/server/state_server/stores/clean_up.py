"""Clean-up of gone values: the background pass over the stores of states with a TTL.

A value may be removed only if no reader can tell. A reader of version v, a task of batch v + 1 or
a replay of it, judges by the timestamp of that batch, which is not before the timestamp of
batch v; the store has no version before `base_version`. So a value is removed once it is gone
(`wire.values.lifetime`) at the timestamp of batch `base_version`, and not before `MARGIN_MS`
later: queries judge by the clocks of servers, and the clock of a restarted driver may be behind.
A record that a newer version has replaced is shadowed by its overlay, whatever the base has. What
tasks write does not depend on clean-up, so a changelog has no trace of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.state_server.stores.owned_subtask import CleanUpPass
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.values.lifetime import Lifetime
from queryable_state.wire.values.value_codec import timestamp_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.v1 import registration_pb2

MARGIN_MS = 60_000
"""Most difference between the clocks of drivers and servers that clean-up allows for."""

# Records of one step; the backend may hold the GIL for all of it.
_STEP_RECORDS = 256
_NEVER_MS = 1 << 63


def removable(
    state: registration_pb2.StateRegistration, timestamp_ms: int
) -> Callable[[bytes], bool] | None:
    """Returns a function that is true for values that may be removed; None: no value may.

    `timestamp_ms` is the timestamp of the oldest batch that readers may be at.
    """
    gone_ms = _removable_ms(state, timestamp_ms)
    return None if gone_ms is None else GoneValues(gone_ms).remove


def _removable_ms(state: registration_pb2.StateRegistration, timestamp_ms: int) -> int | None:
    lifetime = Lifetime.of(state)
    return None if lifetime is None else lifetime.gone_ms(timestamp_ms - MARGIN_MS)


class GoneValues:
    """Selection of the values to remove, which remembers the oldest one that stays."""

    def __init__(self, gone_ms: int, oldest_ms: int = _NEVER_MS) -> None:
        self.oldest_ms = oldest_ms
        """The oldest timestamp of the values that stay."""
        self._gone_ms = gone_ms

    def remove(self, value: bytes) -> bool:
        """True if the value may be removed."""
        try:
            timestamp_ms = timestamp_of(value)
        except CorruptDataError:
            # Its readers report it.
            return False
        if timestamp_ms is None:
            return False
        if timestamp_ms <= self._gone_ms:
            return True
        if timestamp_ms < self.oldest_ms:
            self.oldest_ms = timestamp_ms
        return False


class CleanUp:
    """Visits the records of a store, a step at a time, as many as its commits have planned.

    A pass continues where the last visits stopped. After the last record a new pass begins as
    soon as the oldest value that stayed may be removed: until then it would find nothing.
    """

    def __init__(self, table: StoreTable, background: BackgroundThread) -> None:
        self._table = table
        self._background = background

    async def run(self, job: JobStores, subtask: OwnedSubtask) -> None:
        """Makes the planned visits of one store."""
        for state_id in list(subtask.visits):
            await self._visit(job, subtask, state_id)

    async def _visit(self, job: JobStores, subtask: OwnedSubtask, state_id: int) -> None:
        left = subtask.visits.pop(state_id)
        state = subtask.states.get(state_id)
        # Ownership is checked in the turn that enqueues the step: a store that leaves the table is
        # closed by a later job of the same thread.
        while left > 0 and state is not None and self._table.subtask(subtask.id) is subtask:
            timestamp_ms = job.timestamp_at(subtask.store.base_version)
            gone_ms = None if timestamp_ms is None else _removable_ms(state, timestamp_ms)
            if timestamp_ms is None or gone_ms is None:
                return
            last = subtask.passes.get(state_id)
            if last is None or last.next_key is None:
                if last is not None and gone_ms < last.oldest_ms:
                    return
                # Records that batches write during the pass are not older.
                last = subtask.passes[state_id] = CleanUpPass(b"", timestamp_ms)
            start, step = last.next_key or b"", min(left, _STEP_RECORDS)
            gone = GoneValues(gone_ms, last.oldest_ms)
            end = await self._background.run(
                subtask.store.clean_up, state_id, start, step, gone.remove
            )
            last.oldest_ms = gone.oldest_ms
            if end is None:
                last.next_key = None
                return
            if end == start:
                # A snapshot compacts the store; the next commit plans visits again.
                return
            left -= step
            last.next_key = end
