"""Overlays of raw records, made of the changes that Spark wrote for one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.overlay import Overlay, StateOverlay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from queryable_state.server.native_state.files.changes import FoldedChanges


def raw_overlay(
    changes: Mapping[int, FoldedChanges],
    merge_delimiter: bytes,
    read: Callable[[int, bytes], bytes | None],
) -> Overlay:
    """The overlay of the changes of each source.

    `read(source, key)` returns a value of the version before, for keys that the batch appends to.
    """
    states: dict[int, StateOverlay] = {}
    size_bytes = records = 0
    for source, folded in changes.items():
        values = folded.values
        for key, appended in folded.appended.items():
            old = read(source, key)
            values[key] = appended if old is None else old + merge_delimiter + appended
        if values:
            states[source] = StateOverlay(values)
            records += len(values)
            size_bytes += sum(map(len, values)) + sum(map(len, filter(None, values.values())))
    return Overlay(states, size_bytes, records)
