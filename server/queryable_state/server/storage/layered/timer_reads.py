"""Reads of pending timers: overlays by index key, newest first, over the index of a base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.layered import layer_stack
from queryable_state.server.storage.time_index import FirstTimers, clock_bounds
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.storage.overlay import StateOverlay
    from queryable_state.server.storage.record_source import RecordSource
    from queryable_state.server.storage.time_index import TimerOverlay

_FIRST_STEP = 16
_LONGEST_STEP = 4096


def chunk(
    layers: Sequence[TimerOverlay],
    undo: Sequence[StateOverlay],
    index: RecordSource,
    start: bytes,
    end: bytes,
) -> tuple[list[bytes], bytes | None]:
    """Some pending timers of one clock from `start` on, and the next start (None: all read).

    `undo` are overlays of index keys beneath the layers.
    """
    if layers and layers[0].first is not None:
        start = max(start, layers[0].first[start[0]] or end)
        if start >= end:
            return [], None
    records, next_start = layer_stack.chunk(
        [*layers, *undo], index, start, end, layer_stack.CHUNK_RECORDS
    )
    return [key for key, _ in records], next_start


def first_timers(layers: Sequence[TimerOverlay], index: RecordSource) -> FirstTimers:
    """The first pending timers; the newest layer remembers them.

    Passes over the timers that the newest layer deletes in front of them: a view of its version
    need not do so again.
    """
    if not layers:
        return FirstTimers(*(_first(layers, index, *clock_bounds(clock)) for clock in Clock))
    newest = layers[0]
    if newest.first is None:
        below = layers[1].first if len(layers) > 1 else None
        newest.first = FirstTimers(
            *(_first(layers, index, *_bounds(newest, below, clock)) for clock in Clock)
        )
    return newest.first


def _bounds(newest: TimerOverlay, below: FirstTimers | None, clock: Clock) -> tuple[bytes, bytes]:
    """Range of index keys that holds the clock's first timer; `below` narrows it."""
    start, end = clock_bounds(clock)
    if below is None:
        return start, end
    changed = newest.keys_from(start, end, 1)
    return min(below[clock] or end, changed[0] if changed else end), end


def _first(
    layers: Sequence[TimerOverlay], index: RecordSource, start: bytes, end: bytes
) -> bytes | None:
    step = _FIRST_STEP
    place: bytes | None = start
    while place is not None and place < end:
        records, place = layer_stack.chunk(layers, index, place, end, step)
        if records:
            return records[0][0]
        step = min(4 * step, _LONGEST_STEP)
    return None
