"""Due and pending timers of a subtask, as tasks and the coordinator are told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.store import StateStore, StateView
    from queryable_state.server.storage.time_index import NextTimers

# Limits of a page. One timer is always sent, whatever its size.
_PAGE_TIMERS = 4096
_PAGE_BYTES = 1 << 20


def timer_state(states: Iterable[registration_pb2.StateRegistration]) -> int | None:
    """The id of an operator's state of timers; None if it has none."""
    timers = (state.state_id for state in states if state.kind == registration_pb2.TIMER)
    return next(timers, None)


def first_due(
    store: StateStore, version: int, state_id: int, query: backend_pb2.DueQuery
) -> backend_pb2.DueTimers:
    """The first page of due timers at a version. For the background thread."""
    with store.view(version) as view:
        return read_due(view, state_id, query)


def read_due(view: StateView, state_id: int, query: backend_pb2.DueQuery) -> backend_pb2.DueTimers:
    """A page of due timers. For the background thread."""
    after = query.after
    if after and after[0] > 1:
        raise InvalidRequestError(
            f"a page of due timers of state {state_id} cannot follow {after[:16].hex()}: send the "
            "last timer of the page before"
        )
    limit = min(query.limit or _PAGE_TIMERS, _PAGE_TIMERS)
    page: list[bytes] = []
    size_bytes = 0
    event_time_ms = query.event_time_ms if query.HasField("event_time_ms") else None
    for timer in view.due(state_id, query.processing_time_ms, event_time_ms, after):
        size_bytes += len(timer)
        if page and (len(page) == limit or size_bytes > _PAGE_BYTES):
            return backend_pb2.DueTimers(timers=page, has_more=True)
        page.append(timer)
    return backend_pb2.DueTimers(timers=page)


def due_query(batch_timestamp_ms: int, watermark_ms: int) -> backend_pb2.DueQuery:
    """The query for the timers due in a batch; watermark 0: there is none yet."""
    return backend_pb2.DueQuery(
        processing_time_ms=batch_timestamp_ms, event_time_ms=watermark_ms or None
    )


def timers_after(store: StateStore, state_id: int | None, overlay: Overlay) -> NextTimers | None:
    """The pending timers after a batch; None without timers. For the background thread."""
    return None if state_id is None else store.next_timers(state_id, overlay)
