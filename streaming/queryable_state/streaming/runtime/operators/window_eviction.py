"""Windows of a queryable sink in one task: their slots, and the removal of those that have ended.

A value is removed at the first batch whose watermark has reached the end of its window plus the
time to retain it: at its start, before the rows. A row that comes later is stored, and removed at
the next batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queryable_state.streaming.runtime.columns.event_time import timestamps
from queryable_state.streaming.runtime.states.key_table import distinct_rows
from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, window_namespace, window_of
from queryable_state.wire.keys.timer_keys import ELEMENT_BYTES, Clock, timer_element

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.runtime.operators.sink_window import SinkWindow
    from queryable_state.streaming.runtime.states.column_state import ColumnState
    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.streaming.runtime.states.task_states import TaskStates

_MAX_LONG: Final = (1 << 63) - 1
_NAMESPACE_BYTES: Final = len(window_namespace(0, 0))


class WindowEviction:
    """Call order: `fire` before the rows, `slots` for each chunk, `register` once at the end."""

    def __init__(self, window: SinkWindow, states: Sequence[ColumnState], where: str) -> None:
        """`states` are those of the operator; `where` is its name for error texts."""
        self.timers = TaskTimers(window.timers)
        self.removed: dict[bytes, None] = {}
        """Prefixes of the values that were removed in this batch."""
        self._window = window
        self._states = states
        self._where = where
        self._namespaces: dict[tuple[int, int], bytes] = {}
        for state in states:
            state.windowed = not window.is_key

    def fire(self, watermark_ms: int) -> None:
        """Removes the values of windows that have ended, in all states."""
        if not self._window.evicts:
            # Timers of an earlier start, which removed values.
            for _ in self.timers.fire_all():
                pass
            return
        early: list[tuple[bytes, bytes]] = []
        times: dict[bytes, int] = {}
        for page in self.timers.fire_all():
            for index_key in page:
                prefix = index_key[ELEMENT_BYTES:]
                namespace = prefix[-_NAMESPACE_BYTES:]
                time_ms = times.get(namespace)
                if time_ms is None:
                    time_ms = times[namespace] = self._time_of(_end_of(namespace))
                if time_ms > watermark_ms:
                    # A timer of an earlier start, which kept values for a shorter time.
                    early.append((timer_element(Clock.EVENT_TIME, time_ms), prefix))
                elif self._window.is_key:
                    self.removed[prefix[:-_NAMESPACE_BYTES] + VOID_NAMESPACE] = None
                else:
                    self.removed[prefix] = None
        if early:
            self.timers.register_all(*zip(*early, strict=True))
        for state in self._states:
            state.ended += self.removed

    def slots(self, owned: TaskStates, key_slots: Slots, batch: pa.RecordBatch) -> Slots:
        """The slot of each row in the states of the operator."""
        if self._window.is_key:
            return key_slots
        starts, ends = self._bounds(batch.column(self._window.column))
        codes, firsts = distinct_rows([pa.array(key_slots), starts, ends])
        namespaces = self._namespaces_of(starts, ends, firsts)
        slots = owned.windows.start_chunk(zip(key_slots[firsts].tolist(), namespaces, strict=True))
        slot_of_code: Slots = np.array(slots, dtype=np.int64)
        return slot_of_code[codes]

    def register(self, owned: TaskStates, slots: Slots, rows: pa.Table) -> None:
        """Registers a timer for the window of each row; `slots` has the slots of the rows."""
        if not self._window.evicts or not rows.num_rows:
            return
        column = rows.column(self._window.column).combine_chunks()
        starts, ends = self._bounds(column)
        elements = {
            end: timer_element(Clock.EVENT_TIME, self._time_of(end))
            for end in set(ends.to_pylist())
        }
        if self._window.is_key:
            wire_keys = owned.keys.wire_keys
            namespaces = self._namespaces_of(starts, ends, np.arange(len(slots)))
            prefixes = [
                wire_keys[slot] + namespace
                for slot, namespace in zip(slots.tolist(), namespaces, strict=True)
            ]
        else:
            prefixes = owned.windows.prefixes(slots.tolist())
        self.timers.register_all([elements[end] for end in ends.to_pylist()], prefixes)

    def _time_of(self, end_ms: int) -> int:
        """When the values of windows with this end are removed."""
        assert self._window.retain_ms is not None
        return min(end_ms + self._window.retain_ms, _MAX_LONG)

    def _namespaces_of(self, starts: pa.Array, ends: pa.Array, rows: Slots) -> list[bytes]:
        """The namespaces of the windows of some rows."""
        taken = pa.array(rows)
        bounds = zip(starts.take(taken).to_pylist(), ends.take(taken).to_pylist(), strict=True)
        known = self._namespaces
        namespaces = []
        for window in bounds:
            namespace = known.get(window)
            if namespace is None:
                namespace = known[window] = window_namespace(*window)
            namespaces.append(namespace)
        return namespaces

    def _bounds(self, column: pa.StructArray) -> tuple[pa.Array, pa.Array]:
        """Start and end of each window, in milliseconds since the epoch."""
        bounds = column.flatten()
        nulls = max(bound.null_count for bound in bounds)
        if nulls:
            raise InvalidRequestError(
                f"{self._where}: the window column {self._window.column!r}, or its start or end, "
                f"is null in {nulls} of {len(column)} rows: filter these rows"
            )
        starts, ends = (timestamps(bound) for bound in bounds)
        if not pc.all(pc.less_equal(starts, ends)).as_py():
            raise InvalidRequestError(
                f"{self._where}: the window column {self._window.column!r} has a window that ends "
                "before it starts: give the start first"
            )
        if not self._window.is_key and not all(map(_is_whole, bounds)):
            raise InvalidRequestError(
                f"{self._where}: the window column {self._window.column!r} has a start or an end "
                "that is not a whole millisecond, but state is stored by windows of milliseconds: "
                "use windows of whole milliseconds"
            )
        return starts, ends


def _is_whole(times: pa.Array) -> bool:
    """True if all timestamps are whole milliseconds."""
    micros = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
    return bool(micros.equals(pc.multiply(timestamps(times), 1000)))


def _end_of(namespace: bytes) -> int:
    """The end of a window in milliseconds since the epoch."""
    window = window_of(namespace)
    assert window is not None, "each timer of a sink belongs to a window"
    return window[1]
