"""Values that a committed batch replaced, read for the watches of its job."""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.storage.key_order import prefix_end
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.watches.change_history import BatchChanges, OldValues
    from queryable_state.server.storage.overlay import StateOverlay
    from queryable_state.server.storage.store import StateStore, StateView
    from queryable_state.wire.keys.key_end import KeyEnd

Touched = dict[int, set[bytes] | None]
"""The watched wire keys that a batch changed, by state id; None: any may be."""

_log = logging.getLogger(__name__)

# Records that one job of the background thread goes through, so that fetches run in between.
_CHUNK_RECORDS = 8192

# Old values of one state in one batch of a subtask; those of further records are not read.
_MOST_VALUES = 65_536


class WatchedChanges(NamedTuple):
    """The changes of a watched state in one batch of one subtask."""

    subtask: OwnedSubtask
    batch: BatchChanges
    state_id: int
    keys: frozenset[bytes] | None
    """The watched wire keys; None: all keys are watched."""
    key_end: KeyEnd

    @property
    def overlay(self) -> StateOverlay:
        """The changes."""
        return self.batch.overlay.states[self.state_id]


class OldValueReads:
    """Reads the old values of some changes on the background thread, and keeps them in the
    histories.

    Made in the turn of the loop that commits the batch: its first job, which opens the views of the
    versions before it, is enqueued then, ahead of the compaction of the batch.
    """

    def __init__(self, changes: Sequence[WatchedChanges], background: BackgroundThread) -> None:
        self._changes = changes
        self._background = background
        self._views: dict[OwnedSubtask, StateView | None] = {}
        self._touched: Touched = {}
        self._found: list[tuple[WatchedChanges, OldValues]] = []
        self._steps = self._read()
        self._first = background.run(self._advance)

    async def run(self) -> Touched:
        """Reads the values; call it once. A value that cannot be read stays unknown."""
        try:
            goes_on = await self._first
            self._remember()
            while goes_on:
                goes_on = await self._background.run(self._advance)
                self._remember()
        except QueryableStateError as problem:
            # The store was closed: its watches end with NOT_OWNER.
            _log.debug("the old values of a batch cannot be read: %s", problem)
            self._touched = dict.fromkeys(each.state_id for each in self._changes)
        finally:
            # The watches do not wait for it.
            with suppress(RuntimeError):
                self._background.submit(self._close_views)
        return self._touched

    def _remember(self) -> None:
        """Keeps what was read. Event loop only, as the histories are."""
        for each, old in self._found:
            each.subtask.history.remember(each.batch, each.state_id, old)
        self._found.clear()

    def _advance(self) -> bool:
        """One job: reads on; False once everything is read."""
        records = 0
        for count in self._steps:
            records += count
            if records >= _CHUNK_RECORDS:
                return True
        return False

    def _read(self) -> Iterator[int]:
        """Reads everything; yields after each part the number of records that it went through."""
        for each in self._changes:
            if each.subtask not in self._views:
                self._views[each.subtask] = _view_before(each.subtask.store, each.batch.batch_id)
        for each in self._changes:
            records, keys = _records_of(each)
            known = self._touched.setdefault(each.state_id, set())
            if keys is None or known is None:
                self._touched[each.state_id] = None
            else:
                known.update(keys)
            yield len(each.overlay.records)
            view = self._views[each.subtask]
            if view is None:
                continue
            for start in range(0, len(records), _CHUNK_RECORDS):
                chunk = records[start : start + _CHUNK_RECORDS]
                values = view.multi_get(each.state_id, chunk)
                self._found.append((each, dict(zip(chunk, values, strict=True))))
                yield len(chunk)

    def _close_views(self) -> None:
        for view in self._views.values():
            if view is not None:
                view.close()


def _changed_wire_keys(
    overlay: StateOverlay, keys: Collection[bytes], key_end: KeyEnd
) -> tuple[list[bytes], set[bytes]]:
    """The store keys of records of these wire keys that a sorted overlay writes, and the wire keys
    that it writes or clears."""
    records: list[bytes] = []
    touched: set[bytes] = set()
    for key in keys:
        found = overlay.keys_from(key, prefix_end(key), _MOST_VALUES)
        if found:
            records += found
            touched.add(key)
    touched.update(
        wire_key for prefix in overlay.cleared if (wire_key := prefix[: key_end(prefix, 2)]) in keys
    )
    return records, touched


def _view_before(store: StateStore, batch_id: int) -> StateView | None:
    """A view of the version before a batch; None if it is compacted or the store is closed."""
    with suppress(QueryableStateError):
        return store.view(batch_id - 1)
    return None


def _records_of(each: WatchedChanges) -> tuple[list[bytes], set[bytes] | None]:
    """The store keys whose old values are to be read, and the watched wire keys that changed."""
    overlay = each.overlay
    # The watches search it on the event loop.
    overlay.sort()
    if each.keys is None:
        return list(islice(overlay.records, _MOST_VALUES)), None
    first, last = each.subtask.first_key_group, each.subtask.last_key_group
    owned = {key for key in each.keys if first <= (key[0] << 8 | key[1]) <= last}
    records, touched = _changed_wire_keys(overlay, owned, each.key_end)
    return records[:_MOST_VALUES], touched
