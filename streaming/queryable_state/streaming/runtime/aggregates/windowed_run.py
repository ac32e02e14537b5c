"""Columnar execution of the built-in aggregations of time windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.aggregates.accumulators import accumulator, overflow_error
from queryable_state.streaming.runtime.aggregates.window_rows import WindowRows
from queryable_state.streaming.runtime.aggregates.window_slots import WindowSlots
from queryable_state.streaming.runtime.columns.event_time import timestamps
from queryable_state.streaming.runtime.columns.value_columns import cast_column
from queryable_state.streaming.runtime.dropped_rows import log_dropped
from queryable_state.streaming.runtime.operators.operator_run import OperatorRun
from queryable_state.streaming.runtime.states.column_state import ColumnState
from queryable_state.streaming.runtime.states.key_table import KeyTable
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
from queryable_state.wire.arrow.arrow_types import arrow_schema
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.timer_keys import ELEMENT_BYTES, Clock, timer_element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.aggregates.time_windows import Mask, Millis
    from queryable_state.streaming.runtime.aggregates.windowed_aggregate import (
        StoredColumn,
        WindowedAggregate,
    )
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.streaming.stateless.output_tag import OutputTag
    from queryable_state.v1.registration_pb2 import StateRegistration


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


_NAMESPACE = np.dtype([("tag", "u1"), ("start", ">u8"), ("end", ">u8")])
_ELEMENT = np.dtype([("clock", "u1"), ("time", ">u8")])
_BIAS = np.uint64(1 << 63)


class EndedWindows:
    """A page of due timers, each of one key and window."""

    def __init__(self, index_keys: Sequence[bytes]) -> None:
        self.prefixes = [key[ELEMENT_BYTES:] for key in index_keys]
        """Wire key and namespace of each timer."""
        size = _NAMESPACE.itemsize
        self.wire_keys = [prefix[:-size] for prefix in self.prefixes]
        data = b"".join([prefix[-size:] for prefix in self.prefixes])
        namespaces = np.frombuffer(data, dtype=_NAMESPACE)
        self.starts = _signed(namespaces["start"])
        """Start of each timer's window."""
        self.ends = _signed(namespaces["end"])
        """End of each timer's window, exclusive."""
        elements = b"".join([key[:ELEMENT_BYTES] for key in index_keys])
        self.times = _signed(np.frombuffer(elements, dtype=_ELEMENT)["time"])
        """Timestamp of each timer."""


def _signed(biased: npt.NDArray[np.uint64]) -> Millis:
    times: Millis = (biased.astype(np.uint64) ^ _BIAS).view(np.int64)
    return times


class LateRows:
    """The late rows of one task."""

    def __init__(self, tag: OutputTag | None, spec: OperatorSpec, where: str) -> None:
        """`tag`: the side output of the rows; None: they are dropped."""
        self._tag = tag
        self._spec = spec
        self._where = where
        self._dropped = 0

    def outputs(self, batch: pa.RecordBatch, late: Mask) -> Iterator[Output]:
        """The late rows of a chunk, if the side output is read; counts them if there is none."""
        if self._tag is None:
            self._dropped += int(late.sum())
            return
        if self._tag not in self._spec.side_outputs:
            return
        index = self._spec.side_outputs.index(self._tag)
        rows, read = batch.filter(pa.array(late)), self._spec.input
        fields = self._spec.side_output_fields(index)
        columns = [rows.column(name) for name in read.value_columns]
        if self._spec.emits_event_time:
            columns.append(timestamps(rows.column(read.event_time)))
        arrays = [
            cast_column(column, field.type, f"{self._where}: late column {field.name!r}")
            for column, field in zip(columns, fields, strict=True)
        ]
        yield index + 1, pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields))

    def log(self) -> None:
        """Logs the number of dropped rows, at most once a minute for each worker and operator."""
        log_dropped(self._dropped, self._spec.uid, self._where)


class WindowTotals:
    """The stored columns of a windowed aggregate, by the slots of a table."""

    def __init__(self, stored: Sequence[StoredColumn], slots: WindowSlots, where: str) -> None:
        self.slots = slots
        self._stored = stored
        self._where = where
        self._columns = [accumulator(each.aggregate, self._overflow_of(each)) for each in stored]

    def inputs(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of rows that are added, one for each stored column."""
        return [self._input(batch, each) for each in self._stored]

    def add(self, slots: Slots, columns: Sequence[pa.Array]) -> None:
        """Adds rows to these slots, in their order."""
        for totals, column in zip(self._columns, columns, strict=True):
            totals.grow(len(self.slots))
            totals.add(slots, column)

    def merge(self, slots: Slots, other: WindowTotals, rows: Slots) -> None:
        """Adds, to each of these slots, the aggregates of the other table's slot in `rows`."""
        for totals, added in zip(self._columns, other._columns, strict=True):
            totals.grow(len(self.slots))
            totals.merge(slots, added, rows)

    def columns(self) -> list[pa.Array]:
        """The aggregates of all slots; counts are never null."""
        return [totals.column() for totals in self._columns]

    def _input(self, batch: pa.RecordBatch, stored: StoredColumn) -> pa.Array:
        if not stored.source:
            return pa.array(np.ones(batch.num_rows, dtype=np.int64))
        column = batch.column(stored.source)
        if stored.is_count:
            return column.is_valid().cast(pa.int64())
        described = f"{self._where}: column {stored.source!r}"
        return cast_column(column, stored.aggregate.type, described)

    def _overflow_of(self, stored: StoredColumn) -> Callable[[int], Exception]:
        aggregate = stored.aggregate
        return lambda slot: overflow_error(
            f"{self._where}: the {aggregate.kind} of column {stored.source!r} for key "
            f"{self.slots.shown(slot)}",
            aggregate.type,
        )


class WindowColumns(ColumnState):
    """A columnar state whose slots are those of keys and windows."""

    def __init__(self, descriptor: StateDescriptor, size_ms: int) -> None:
        """`size_ms` is the size of all windows."""
        super().__init__(descriptor)
        self.slots: WindowSlots
        self._size_ms = size_ms
        self._registration: StateRegistration

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        keys = context.table
        assert isinstance(keys, KeyTable)
        self.slots = WindowSlots(keys, self._size_ms)
        self._registration = registration
        super().bind(registration, replace(context, table=self.slots))

    def at(self, prefixes: Sequence[bytes]) -> ColumnState:
        """The same state, to be read with the positions in these prefixes as slots."""
        reader = ColumnState(self.descriptor)
        reader.bind(self._registration, replace(self._context, table=_Prefixes(prefixes)))
        return reader


class _Prefixes:
    """A `SlotTable` of prefixes that are known already."""

    def __init__(self, prefixes: Sequence[bytes]) -> None:
        self.chunk_slots: Sequence[int] = ()
        self._prefixes = prefixes

    def __len__(self) -> int:
        return len(self._prefixes)

    def prefix(self, slot: int) -> bytes:
        return self._prefixes[slot]

    def prefixes(self, slots: Sequence[int]) -> list[bytes]:
        return [self._prefixes[slot] for slot in slots]

    def shown(self, slot: int) -> str:
        return self._prefixes[slot].hex()
