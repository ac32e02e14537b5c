"""Compaction of one overlay into the base, a chunk at a time."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from queryable_state.server.storage.key_order import key_after, prefix_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.storage.base import BaseImage, StateBase
    from queryable_state.server.storage.overlay import Overlay

COMPACT_CHUNK_RECORDS = 256
"""Records of one write to the base; the backend may hold the GIL for all of it."""


class Compaction:
    """One compaction: the merge of the oldest overlay into the base, in chunks.

    The overlay stays in front of the base until `advance` has returned False, so no
    reader sees the half-written base. It may start over: its writes are idempotent.
    """

    def __init__(self, overlay: Overlay, base: StateBase, image: BaseImage | None) -> None:
        self.overlay = overlay
        self._restart = partial(_steps, overlay, base, image)
        self._steps = self._restart()

    def advance(self, max_records: int) -> tuple[int, bool]:
        """Writes about `max_records` records; returns their number and True if more is left."""
        done = 0
        try:
            while done < max_records:
                step = next(self._steps, None)
                if step is None:
                    return done, False
                done += step
        except BaseException:
            # A generator that raised is exhausted and would look finished.
            self._steps = self._restart()
            raise
        return done, True


def _steps(overlay: Overlay, base: StateBase, image: BaseImage | None) -> Iterator[int]:
    """Yields the number of records after each write, at least 1.

    Not a method: a compaction dropped half-way must release its image at once, and a
    generator with a reference to its owner would wait for the garbage collector.
    """
    for state_id, changes in overlay.states.items():
        for prefix in changes.cleared:
            yield from _clear(base, state_id, prefix, image)
        records = iter(changes.records.items())
        while chunk := dict(sorted(islice(records, COMPACT_CHUNK_RECORDS))):
            base.apply(state_id, chunk, image)
            yield len(chunk)


def _clear(base: StateBase, state_id: int, prefix: bytes, image: BaseImage | None) -> Iterator[int]:
    start, end = prefix, prefix_end(prefix)
    while found := base.source(state_id).chunk(start, end, COMPACT_CHUNK_RECORDS):
        base.apply(state_id, dict.fromkeys(key for key, _ in found), image)
        yield len(found)
        start = key_after(found[-1][0])
    yield 1
