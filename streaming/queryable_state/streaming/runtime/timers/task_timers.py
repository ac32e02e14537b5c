"""Timers of a task: those due in its batch, and the changes to the pending ones."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from queryable_state.internal.v1.backend_pb2 import DueQuery, StateFetch
from queryable_state.streaming.runtime.timers.due_page import DuePage, DueTimer
from queryable_state.streaming.runtime.timers.timer_descriptor import TimerDescriptor
from queryable_state.wire.event_time import NO_WATERMARK
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, split_record_key
from queryable_state.wire.keys.timer_keys import (
    ELEMENT_BYTES,
    Clock,
    due_end,
    index_key_of,
    store_key_of,
    timer_element,
    timer_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from queryable_state.internal.v1.backend_pb2 import DueTimers
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder

_FIRST_MS: Final = -(1 << 63)
_LAST_MS: Final = (1 << 63) - 1


class TaskTimers:
    """The pending timers of one task, one for each clock, timestamp, key and namespace.

    Call order: `bind` after the task's begin; `due` once, before the rows; `write` once at the end.
    Timers are registered and deleted from `bind` to `write`, without reads: a timer that is
    registered again stays one, and one that is not pending may be deleted. A timer that is
    registered after `due` has ended fires in the next batch at the earliest.
    """

    def __init__(
        self, descriptor: TimerDescriptor | None = None, *, least_cancelled: int = 64
    ) -> None:
        """If rows register and then delete at least `least_cancelled` timers, the task asks which
        of them were pending before, and writes no deletes of the others."""
        self.descriptor = TimerDescriptor() if descriptor is None else descriptor
        self._least_cancelled = least_cancelled
        self._cancelled: dict[Clock, list[bytes]] = {clock: [] for clock in Clock}
        """Store keys of timers that were deleted after they were registered, behind `due`."""
        self.state_id = 0
        self._context: StateContext
        self._changes: dict[bytes, bool] = {}
        """By store key: True for a timer that was registered last, False for one deleted last."""
        self._new_due: list[bytes] | None = None
        """Heap of index keys: due timers that were registered during `due`; None outside of it."""

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        """Sets the registered state id, the clocks and the first due timers."""
        self.state_id = registration.state_id
        self._context = context
        self._has_namespaces = registration.HasField("namespace_type")
        self._key_codec = KeyCodec(context.key_type)
        self._watermark_ms = None if context.watermark_ms == NO_WATERMARK else context.watermark_ms
        self._due_ends = (
            due_end(Clock.PROCESSING_TIME, context.batch_timestamp_ms),
            b"" if self._watermark_ms is None else due_end(Clock.EVENT_TIME, self._watermark_ms),
        )
        """For each clock the first index key that is not due."""

    def register(
        self,
        clock: Clock,
        timestamp_ms: int,
        wire_key: bytes,
        namespace: bytes = VOID_NAMESPACE,
    ) -> None:
        """Registers a timer; `timestamp_ms` is in milliseconds since the epoch.

        Raises InvalidRequestError unless the timestamp is a 64-bit number.
        """
        key = wire_key + namespace + timer_element(clock, timestamp_ms)
        self._changes[key] = True
        if self._new_due is not None:
            self._add_if_due(key)

    def delete(
        self,
        clock: Clock,
        timestamp_ms: int,
        wire_key: bytes,
        namespace: bytes = VOID_NAMESPACE,
    ) -> None:
        """Deletes a timer, which need not be pending. A due timer does not fire if its turn has not
        come."""
        key = wire_key + namespace + timer_element(clock, timestamp_ms)
        if self._new_due is None and self._changes.pop(key, False):
            self._cancelled[clock].append(key)
        else:
            self._changes[key] = False

    def register_all(self, elements: Sequence[bytes], prefixes: Sequence[bytes]) -> None:
        """Registers many timers.

        `elements` are those of `timer_element`, and `prefixes`, aligned with them, wire keys with
        their namespaces.
        """
        for prefix, element in zip(prefixes, elements, strict=True):
            self._changes[prefix + element] = True
        if self._new_due is not None:
            for prefix, element in zip(prefixes, elements, strict=True):
                self._add_if_due(prefix + element)

    def due(self) -> Iterator[DuePage]:
        """Pages of the due timers in firing order; each must be fired before the next is read.

        A due timer that is registered meanwhile fires in its place in the order, or next if that
        place is over.
        """
        self._new_due = []
        answer = self._context.due
        while True:
            fetched = list(answer.timers)
            last = fetched[-1] if answer.has_more else None
            if fetched or self._new_due:
                yield self._page(fetched, last)
            if last is None:
                break
            answer = self._fetched(last)
        self._new_due = None

    def fire_all(self) -> Iterator[Sequence[bytes]]:
        """Pages of the index keys of the due timers, in firing order, instead of `due`.

        The timers of a page are no longer pending. None may be registered before the last page.
        """
        answer = self._context.due
        while answer.timers:
            keys = list(answer.timers)
            fired = [key[ELEMENT_BYTES:] + key[:ELEMENT_BYTES] for key in keys]
            self._changes.update(dict.fromkeys(fired, False))
            yield keys
            if not answer.has_more:
                return
            answer = self._fetched(keys[-1])

    def write(self, changes: ChangeBlockBuilder) -> None:
        """Writes the changes: deletes, then puts."""
        for clock, cancelled in self._cancelled.items():
            for key in self._maybe_pending(clock, cancelled):
                self._changes.setdefault(key, False)
        items = self._changes.items()
        changes.delete_all([key for key, is_registered in items if not is_registered])
        registered = [key for key, is_registered in items if is_registered]
        changes.put_all(registered, [b""] * len(registered))

    def _maybe_pending(self, clock: Clock, cancelled: Sequence[bytes]) -> Collection[bytes]:
        """Those of the cancelled timers of a clock that may have been pending before the batch.

        Reads the pending timers from the earliest of these on, but not more than these are: most
        programs register timers behind those that are pending.
        """
        if len(cancelled) < self._least_cancelled:
            return cancelled
        after = min([key[-ELEMENT_BYTES:] for key in cancelled])
        is_event = clock == Clock.EVENT_TIME
        query = DueQuery(
            processing_time_ms=_FIRST_MS if is_event else _LAST_MS,
            event_time_ms=_LAST_MS if is_event else None,
            limit=self._context.settings.fetch_keys,
        )
        pending: list[bytes] = []
        while len(pending) <= len(cancelled):
            query.after = after
            page = self._context.fetch(StateFetch(state_id=self.state_id, due=query)).due
            pending += map(store_key_of, page.timers)
            if not page.has_more:
                return set(cancelled).intersection(pending) if pending else ()
            after = page.timers[-1]
        unread = [key for key in cancelled if index_key_of(key) > after]
        return set(cancelled).intersection(pending).union(unread)

    def _page(self, fetched: list[bytes], last: bytes | None) -> DuePage:
        """The page of these index keys and of the new ones up to the last one; None: all new."""
        new = self._new_due
        assert new is not None
        own = [key for key in new if last is None or key <= last]
        keys = fetched
        if own:
            keys = sorted({*fetched, *own})
            new[:] = [key for key in new if last is not None and key > last]
            heapq.heapify(new)
        timers = list(map(self._timer, keys))
        return DuePage(timers, lambda: self._fire(keys, timers, last))

    def _fire(
        self, keys: Sequence[bytes], timers: Sequence[DueTimer], last: bytes | None
    ) -> Iterator[DueTimer]:
        new = self._new_due
        assert new is not None
        for key, timer in zip(keys, timers, strict=True):
            while new and new[0] < key:
                first = heapq.heappop(new)
                if self._is_pending(first):
                    yield self._timer(first)
            if self._is_pending(key):
                yield timer
        while new and (last is None or new[0] <= last):
            first = heapq.heappop(new)
            if self._is_pending(first):
                yield self._timer(first)

    def _is_pending(self, index_key: bytes) -> bool:
        """True if a due timer was neither fired nor deleted; removes it, because it fires now."""
        key = store_key_of(index_key)
        if not self._changes.get(key, True):
            return False
        self._changes[key] = False
        return True

    def _add_if_due(self, store_key: bytes) -> None:
        assert self._new_due is not None
        index_key = index_key_of(store_key)
        if index_key < self._due_ends[index_key[0]]:
            heapq.heappush(self._new_due, index_key)

    def _timer(self, index_key: bytes) -> DueTimer:
        clock, timestamp_ms = timer_of(index_key[:ELEMENT_BYTES])
        prefix = index_key[ELEMENT_BYTES:]
        if self._has_namespaces:
            wire_key, namespace, _ = split_record_key(prefix, self._key_codec)
            return DueTimer(clock, timestamp_ms, wire_key, namespace)
        return DueTimer(clock, timestamp_ms, prefix[: -len(VOID_NAMESPACE)], VOID_NAMESPACE)

    def _fetched(self, after: bytes) -> DueTimers:
        """The page of due timers after this index key."""
        context = self._context
        query = DueQuery(
            processing_time_ms=context.batch_timestamp_ms,
            event_time_ms=self._watermark_ms,
            after=after,
            limit=context.settings.fetch_keys,
        )
        return context.fetch(StateFetch(state_id=self.state_id, due=query)).due
