"""Columnar execution of the built-in aggregations of time windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.aggregates.ended_windows import EndedWindows
from queryable_state.streaming.runtime.aggregates.late_rows import LateRows
from queryable_state.streaming.runtime.aggregates.totals import WindowTotals
from queryable_state.streaming.runtime.aggregates.window_columns import WindowColumns
from queryable_state.streaming.runtime.aggregates.window_rows import WindowRows
from queryable_state.streaming.runtime.aggregates.window_slots import WindowSlots
from queryable_state.streaming.runtime.columns.event_time import timestamps
from queryable_state.streaming.runtime.operators.operator_run import OperatorRun
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.timer_keys import Clock, timer_element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.streaming.runtime.aggregates.time_windows import Mask, Millis
    from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity

_MAX_LONG: Final = (1 << 63) - 1


class WindowedAggregateRun(OperatorRun):
    """Adds the rows to the stored aggregates of their windows; emits the windows that have ended.

    A window has one timer: at its last millisecond; when that has fired and late elements are
    allowed, at the end of the lateness, which removes its values.

    If no sum is of floats, the rows of overlapping windows are first aggregated by pane, and each
    pane is added to all its windows at the end of the batch. Sums of floats are added row by row,
    in their order and behind the stored sum, which makes them independent of the batch boundaries.
    """

    def __init__(
        self,
        aggregate: WindowedAggregate,
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
    ) -> None:
        super().__init__(spec, task, access)
        self._aggregate = aggregate
        self._windows = aggregate.windows
        self._clock = Clock.EVENT_TIME if self._windows.is_event_time else Clock.PROCESSING_TIME
        self._state = WindowColumns(aggregate.descriptor, self._windows.size_ms)
        self._timers = TaskTimers(aggregate.timers)
        self._rows = WindowRows(aggregate, spec, self.where)
        self._late = LateRows(aggregate.late_tag, spec, self.where)
        self._totals: WindowTotals
        self._panes: WindowTotals | None = None

    def open(self) -> None:
        self._owned = TaskStates(
            self.spec, self._task, self._access, [self._state], timers=self._timers
        )

    def _open(self) -> Sequence[WindowColumns]:
        return [self._state]

    def begin(self) -> None:
        super().begin()
        stored = self._aggregate.stored
        self._totals = WindowTotals(stored, self._state.slots, self.where)
        if self._windows.most > 1 and self._aggregate.is_exact:
            slots = WindowSlots(self.owned.keys, self._windows.pane_ms)
            self._panes = WindowTotals(stored, slots, self.where)

    def fire_timers(self) -> Iterator[Output]:
        lateness = self._aggregate.lateness_ms
        kept: list[tuple[list[bytes], Millis]] = []
        for page in self._timers.fire_all():
            ended = EndedWindows(page)
            fires = ended.times == ended.ends - 1
            yield from self._fired(ended, np.flatnonzero(fires))
            stays = fires & (_later(ended.times, lateness) > self._now)
            if not stays.any():
                self._state.ended += ended.prefixes
                continue
            self._state.ended += [ended.prefixes[i] for i in np.flatnonzero(~stays).tolist()]
            prefixes = [ended.prefixes[i] for i in np.flatnonzero(stays).tolist()]
            kept.append((prefixes, _later(ended.times[stays], lateness)))
        for prefixes, times in kept:
            self._register(prefixes, times)

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        key_slots = self.owned.start_chunk(batch, self.spec.inputs[number])
        times = self._times(batch)
        late = self._is_late(times)
        if late is not None:
            yield from self._late.outputs(batch, late)
            on_time = np.flatnonzero(~late)
            batch, key_slots = batch.take(pa.array(on_time)), key_slots[on_time]
            times = times[on_time]
        columns = self._totals.inputs(batch)
        if self._panes is None:
            self._add(key_slots, times, lambda slots, rows: self._add_rows(slots, rows, columns))
        else:
            slots = self._panes.slots.add(key_slots, self._windows.panes(times))
            self._panes.add(slots, columns)

    def finish(self) -> Iterator[Output]:
        panes = self._panes
        if panes is not None and len(panes.slots):
            self._add(
                panes.slots.key_slots,
                panes.slots.starts,
                lambda slots, rows: self._totals.merge(slots, panes, rows),
            )
        self._late.log()
        slots = self._state.slots
        if not len(slots):
            return
        results = self._totals.columns()
        self._state.put(results)
        again = np.flatnonzero(self._has_ended(slots.ends))
        if len(again) and self._windows.is_event_time:
            yield from self._rows.outputs(
                self.owned.keys,
                slots.key_slots[again],
                slots.starts[again],
                slots.ends[again],
                [column.take(pa.array(again)) for column in results],
            )

    def _fired(self, ended: EndedWindows, positions: Slots) -> Iterator[Output]:
        """The rows of the windows at these positions of a page."""
        reader = self._state.at(ended.prefixes)
        self.owned.fetch(reader, positions.tolist())
        found, stored = reader.fetched_columns()
        key_slots = np.array(self.owned.keys.add_wire_keys(ended.wire_keys), dtype=np.int64)
        yield from self._rows.outputs(
            self.owned.keys, key_slots[found], ended.starts[found], ended.ends[found], stored
        )

    def _add(self, key_slots: Slots, times: Millis, add: Callable[[Slots, Slots], None]) -> None:
        """Adds rows with these timestamps to those of their windows that are left.

        `add` is called with the slot of a window and the index of a row, for each window of each
        row.
        """
        rows, starts = self._windows.assign(times)
        left = self._is_left(starts + self._windows.size_ms)
        if not left.all():
            rows, starts = rows[left], starts[left]
        known = len(self._state.slots)
        slots = self._state.slots.add(key_slots[rows], starts)
        self._load(known)
        add(slots, rows)

    def _add_rows(self, slots: Slots, rows: Slots, columns: Sequence[pa.Array]) -> None:
        """Adds rows to the windows, in the order of the rows."""
        if len(rows) != len(columns[0]) or self._windows.most > 1:
            columns = [column.take(pa.array(rows)) for column in columns]
        self._totals.add(slots, columns)

    def _load(self, known: int) -> None:
        """Adds the stored values of the new slots, and registers the timers of those without."""
        slots = self._state.slots
        new = np.arange(known, len(slots))
        if not self._windows.is_event_time:
            # A window that ends with this batch's time has fired: it begins anew.
            new = new[~self._has_ended(slots.ends[new])]
        self.owned.fetch(self._state, new.tolist())
        stored, columns = self._state.fetched_columns()
        self._totals.add(stored, columns)
        is_new = np.ones(len(slots) - known, dtype=np.bool_)
        is_new[stored - known] = False
        self._register_new(np.flatnonzero(is_new) + known)

    def _register_new(self, slots: Slots) -> None:
        """Registers the timers of new windows."""
        last = self._state.slots.ends[slots] - 1
        # A window that has ended already stays for the allowed lateness.
        times = np.where(last > self._now, last, _later(last, self._aggregate.lateness_ms))
        self._register(self._state.slots.prefixes(slots.tolist()), times)

    def _register(self, prefixes: list[bytes], times: Millis) -> None:
        """Registers a timer for each of these windows."""
        elements = {time: timer_element(self._clock, time) for time in set(times.tolist())}
        self._timers.register_all([elements[time] for time in times.tolist()], prefixes)

    def _times(self, batch: pa.RecordBatch) -> Millis:
        """The timestamps of the rows, by which they belong to windows."""
        if not self._windows.is_event_time:
            return np.full(batch.num_rows, self.owned.batch_timestamp_ms, dtype=np.int64)
        column = self.spec.input.event_time
        found = timestamps(batch.column(column)) if column else pa.nulls(batch.num_rows)
        if found.null_count:
            raise InvalidRequestError(
                f"{self.where}: {found.null_count} of {len(found)} elements have no timestamp, but "
                "windows in event time need one: filter rows whose event-time column is null, and "
                "give the stream one (withWatermark, or assign_timestamps_and_watermarks)"
            )
        times: Millis = found.to_numpy()
        self._windows.check(times)
        return times

    def _is_late(self, times: Millis) -> Mask | None:
        """Rows that belong to no window that is left; None if there are none."""
        if not self._windows.is_event_time:
            return None
        lateness = self._aggregate.lateness_ms
        late = _later(times, lateness) <= self.owned.watermark_ms
        if not late.any():
            return None
        # The last window of a row ends last.
        late &= ~self._is_left(self._windows.last_starts(times) + self._windows.size_ms)
        return late if late.any() else None

    @property
    def _now(self) -> int:
        """The clock of the windows."""
        owned = self.owned
        return owned.watermark_ms if self._windows.is_event_time else owned.batch_timestamp_ms

    def _has_ended(self, ends: Millis) -> Mask:
        """True for windows whose last millisecond the clock has passed."""
        ended: Mask = ends - 1 <= self._now
        return ended

    def _is_left(self, ends: Millis) -> Mask:
        """True for windows that take rows of this batch."""
        if not self._windows.is_event_time:
            return np.ones(len(ends), dtype=np.bool_)
        left: Mask = _later(ends - 1, self._aggregate.lateness_ms) > self.owned.watermark_ms
        return left


def _later(times: Millis, by_ms: int) -> Millis:
    """The times plus this many milliseconds, at most the greatest one."""
    later: Millis = np.minimum(times, _MAX_LONG - by_ms) + by_ms
    return later
