"""About how much the overlays of a state add to its base."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.storage.base import RecordSource
    from queryable_state.server.storage.layered.overlay import StateOverlay

_SAMPLE = 1024


def overlay_size(overlays: Iterable[StateOverlay], source: RecordSource) -> tuple[int, int]:
    """(records, bytes) beyond those of the base, negative where overlays take more than they add.

    `overlays` newest first. Judged by a sample of the changed keys, by all of them where they are
    few; what is cleared by prefix counts until it is folded.
    """
    changes: dict[bytes, bytes | None] = {}
    for overlay in reversed(list(overlays)):
        changes.update(overlay.records)
    if not changes:
        return 0, 0
    keys = list(islice(changes, 0, None, -(-len(changes) // _SAMPLE)))
    records = size_bytes = 0
    for key, below in zip(keys, source.multi_get(keys), strict=True):
        value = changes[key]
        if value is not None:
            records += 1
            size_bytes += len(key) + len(value)
        if below is not None:
            records -= 1
            size_bytes -= len(key) + len(below)
    return records * len(changes) // len(keys), size_bytes * len(changes) // len(keys)
