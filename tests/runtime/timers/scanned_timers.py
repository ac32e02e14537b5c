"""Due timers of a subtask, found by a scan of all its timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1.backend_pb2 import DueQuery, DueTimers
from queryable_state.wire.keys.timer_keys import Clock, due_end, index_key_of, timer_element

if TYPE_CHECKING:
    from collections.abc import Iterable


def due_timers(store_keys: Iterable[bytes], query: DueQuery) -> DueTimers:
    """The page of due timers among all timers with these store keys."""
    clocks = [(Clock.PROCESSING_TIME, query.processing_time_ms)]
    if query.HasField("event_time_ms"):
        clocks.append((Clock.EVENT_TIME, query.event_time_ms))
    ranges = [(timer_element(clock, -(1 << 63)), due_end(clock, until)) for clock, until in clocks]
    due = sorted(
        key
        for key in map(index_key_of, store_keys)
        if key > query.after and any(start <= key < end for start, end in ranges)
    )
    limit = query.limit or len(due)
    return DueTimers(timers=due[:limit], has_more=len(due) > limit)
