"""The changed records of one batch that a watch covers, as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.key_order import prefix_end
from queryable_state.v1 import registration_pb2, watch_pb2
from queryable_state.wire.keys.store_keys import (
    ACCUMULATOR_ELEMENT,
    VOID_NAMESPACE,
    namespace_end,
    write_window,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.query.watch_query import WatchQuery
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StateRoute
    from queryable_state.server.state_server.watches.change_history import BatchChanges
    from queryable_state.server.storage.overlay import StateOverlay
    from queryable_state.wire.keys.key_end import KeyEnd

_ALL = 1 << 40

_COLLECTIONS = (registration_pb2.LIST, registration_pb2.MAP)


def positions_in(
    overlay: StateOverlay, query: WatchQuery, subtask: OwnedSubtask, key_end: KeyEnd
) -> list[bytes]:
    """The store keys and cleared prefixes of an overlay that a watch covers, in order."""
    if query.keys:
        first, last = subtask.first_key_group, subtask.last_key_group
        keys = {key for key in query.keys if first <= (key[0] << 8 | key[1]) <= last}
        found = {record for key in keys for record in overlay.keys_from(key, prefix_end(key), _ALL)}
        found.update(each for each in overlay.cleared if each[: key_end(each, 2)] in keys)
        return sorted(found)
    found = set()
    for start, end in _ranges(query, subtask):
        found.update(overlay.keys_from(start, end, _ALL))
        found.update(each for each in overlay.cleared if start <= each < end)
    return sorted(found)


def _ranges(query: WatchQuery, subtask: OwnedSubtask) -> Iterator[tuple[bytes, bytes]]:
    """The ranges of store keys that a watch without keys covers in one subtask."""
    for run in query.groups:
        first = max(run.first, subtask.first_key_group)
        last = min(run.last, subtask.last_key_group)
        if not query.prefix:
            if first <= last:
                yield first.to_bytes(2, "big"), (last + 1).to_bytes(2, "big")
            continue
        for group in range(first, last + 1):
            start = group.to_bytes(2, "big") + query.prefix
            yield start, prefix_end(start) or (group + 1).to_bytes(2, "big")


class RecordChanges:
    """Writes the changes of one state and subtask in one batch as messages."""

    def __init__(self, route: StateRoute, subtask: OwnedSubtask, batch: BatchChanges) -> None:
        self._subtask = subtask
        self._batch = batch
        self._state_id = route.registration.state_id
        self._kind = route.registration.kind
        self._key_end = route.key_end
        self._overlay = batch.overlay.states[self._state_id]

    def add_to(self, message: watch_pb2.WatchKvStateResponse, position: bytes) -> int:
        """Adds the change at a store key or cleared prefix; returns about its bytes.

        Returns 0 and adds none if it changed nothing visible.
        """
        overlay = self._overlay
        end = self._key_end(position, 2)
        namespace_ends = namespace_end(position, end)
        element = position[namespace_ends:]
        if element == ACCUMULATOR_ELEMENT and self._kind == registration_pb2.AGGREGATING:
            return 0
        value = overlay.records.get(position)
        is_clear = self._kind in _COLLECTIONS and not element
        is_append = self._kind == registration_pb2.LIST and value is not None
        known, old = (True, None) if is_clear or is_append else self._old(position)
        if value is None and known and old is None and not is_clear:
            # Tasks delete without a look whether there was a value.
            return 0
        change = message.changes.add(key=position[:end], element=element)
        namespace = position[end:namespace_ends]
        if namespace != VOID_NAMESPACE:
            write_window(namespace, change.window)
        if is_clear:
            change.kind = watch_pb2.CLEAR
            return len(position)
        if value is None:
            change.kind = watch_pb2.DELETE
        else:
            change.kind, change.value = watch_pb2.APPEND if is_append else watch_pb2.PUT, value
        change.old_unknown = not known
        if old is not None:
            change.old_value = old
        return len(position) + len(value or b"") + len(old or b"")

    def _old(self, position: bytes) -> tuple[bool, bytes | None]:
        """Whether the value before is known, and the value."""
        if self._kind in _COLLECTIONS and self._overlay.hides(position):
            # The watch sends the clear itself before this change.
            return True, None
        return self._subtask.history.value_before(self._batch.batch_id, self._state_id, position)
