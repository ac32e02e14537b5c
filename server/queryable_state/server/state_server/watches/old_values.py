"""Values that a committed batch replaced, read for the watches of its job."""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.storage.key_order import prefix_end
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Sequence

    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.watches.change_history import BatchChanges, OldValues
    from queryable_state.server.storage.overlay import StateOverlay
    from queryable_state.server.storage.store import StateStore, StateView
    from queryable_state.wire.keys.key_end import KeyEnd

Touched = dict[int, set[bytes] | None]
"""The watched wire keys that a batch changed, by state id; None: any may be."""

_log = logging.getLogger(__name__)

# Values that one job of the background thread reads, so that fetches run in between.
_CHUNK_RECORDS = 2048

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

    Made in the turn of the loop that commits the batch: the views of the versions before it are
    enqueued then, ahead of the compaction of the batch.
    """

    def __init__(self, changes: Sequence[WatchedChanges], background: BackgroundThread) -> None:
        self._changes = changes
        self._background = background
        self._views: dict[OwnedSubtask, Awaitable[StateView | None]] = {}
        for each in changes:
            if each.subtask not in self._views:
                self._views[each.subtask] = background.run(
                    _view_before, each.subtask.store, each.batch.batch_id
                )

    async def run(self) -> Touched:
        """Reads the values; call it once. A value that cannot be read stays unknown."""
        touched: Touched = {}
        views = {subtask: await opening for subtask, opening in self._views.items()}
        try:
            for each in self._changes:
                records, keys = await self._background.run(_records_of, each)
                known = touched.setdefault(each.state_id, set())
                if keys is None or known is None:
                    touched[each.state_id] = None
                else:
                    known.update(keys)
                view = views[each.subtask]
                if view is not None:
                    await self._read(each, view, records)
        except QueryableStateError as problem:
            # The store was closed: its watches end with NOT_OWNER.
            _log.debug("the old values of a batch cannot be read: %s", problem)
            touched = dict.fromkeys(each.state_id for each in self._changes)
        finally:
            for view in views.values():
                if view is not None:
                    with suppress(RuntimeError):
                        await self._background.run(view.close)
        return touched

    async def _read(self, each: WatchedChanges, view: StateView, records: list[bytes]) -> None:
        for start in range(0, len(records), _CHUNK_RECORDS):
            chunk = records[start : start + _CHUNK_RECORDS]
            values = await self._background.run(view.multi_get, each.state_id, chunk)
            old: OldValues = dict(zip(chunk, values, strict=True))
            each.subtask.history.remember(each.batch, each.state_id, old)


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
    records, touched = _changed_wire_keys(overlay, each.keys, each.key_end)
    return records[:_MOST_VALUES], touched
