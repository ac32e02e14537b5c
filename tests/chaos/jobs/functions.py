"""What the job of a round does: a state of each shape, timers, and operators behind the first."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from tests.chaos.jobs.workload import (
    DELAY_MS,
    GROUP_SUMS,
    LATENESS_MS,
    RECENT,
    RECENT_LENGTH,
    SHARE_LIMIT,
    SHARES,
    SILENCE_MS,
    SILENCES,
    TICK_EVERY,
    TICK_MS,
    TOTALS,
    WINDOW_MS,
    WINDOW_SUMS,
)

from queryable_state.streaming import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessWindowFunction,
    Time,
    TimeDomain,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from queryable_state.streaming import DataStream, OperatorStream, RuntimeContext
    from queryable_state.streaming.functions import Context, OnTimerContext

_TOTALS = Types.ROW_NAMED(["count", "sum", "last"], [Types.LONG(), Types.LONG(), Types.LONG()])
_OUTPUT = Types.ROW_NAMED(
    ["group", "number", "amount", "ones"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()],
)
_SILENCES = Types.ROW_NAMED(["silent", "ticks", "alarm"], [Types.LONG()] * 3)
_FIRED = Types.ROW_NAMED(
    ["group", "start", "amount", "ones"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()],
)


LEDGER, SUMS, WINDOWS = "ledger", "groups", "windows"
"""Uids of the operators."""


class Ledger(KeyedProcessFunction):
    """Totals, recent numbers, shares and silences of each key; passes every row on.

    A key is silent when the watermark has passed its last row by a while, and it counts ticks of
    processing time.
    """

    def __init__(self, renamed: Mapping[str, str]) -> None:
        """`renamed`: other names for states; readers know them by the same ones."""
        self._renamed = renamed

    def open(self, runtime_context: RuntimeContext) -> None:
        name = self._renamed.get
        totals = ValueStateDescriptor(name(TOTALS, TOTALS), _TOTALS)
        recent = ListStateDescriptor(name(RECENT, RECENT), Types.LONG())
        shares = MapStateDescriptor(name(SHARES, SHARES), Types.LONG(), Types.LONG())
        totals.set_queryable(TOTALS)
        recent.set_queryable(RECENT)
        shares.set_queryable(SHARES)
        silences = ValueStateDescriptor(name(SILENCES, SILENCES), _SILENCES)
        silences.set_queryable(SILENCES)
        self.silences = runtime_context.get_state(silences)
        self.totals = runtime_context.get_state(totals)
        self.recent = runtime_context.get_list_state(recent)
        self.shares = runtime_context.get_map_state(shares)

    def process_element(self, value: Any, ctx: Context) -> Iterator[Any]:
        count, total, _ = self.totals.value() or (0, 0, 0)
        self.totals.update((count + 1, total + value.amount, value.number))
        if count and count % RECENT_LENGTH == 0:
            self.recent.clear()
        self.recent.add(value.number)
        share = value.amount % 5
        shares = (self.shares.get(share) or 0) + 1
        if shares == SHARE_LIMIT:
            self.shares.remove(share)
        else:
            self.shares.put(share, shares)
        self._set_timers(value, ctx)
        yield value.group, value.number, value.amount, 1

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> None:
        silent, ticks, alarm = self.silences.value() or (0, 0, 0)
        if ctx.time_domain() is TimeDomain.EVENT_TIME:
            self.silences.update((silent + 1, ticks, 0))
        else:
            self.silences.update((silent, ticks + 1, alarm))

    def _set_timers(self, value: Any, ctx: Context) -> None:
        silent, ticks, alarm = self.silences.value() or (0, 0, 0)
        timers, time_ms = ctx.timer_service(), ctx.timestamp()
        assert time_ms is not None
        if alarm:
            timers.delete_event_time_timer(alarm)
        alarm = time_ms + SILENCE_MS
        timers.register_event_time_timer(alarm)
        self.silences.update((silent, ticks, alarm))
        if value.number % TICK_EVERY == 0:
            timers.register_processing_time_timer(timers.current_processing_time() + TICK_MS)


class OfWindow(ProcessWindowFunction):
    """The sums of a window with its start."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        for each in elements:
            yield key, context.window().start, each.amount, each.ones


def added(one: Any, other: Any) -> tuple[Any, ...]:
    """Two rows of a group and window as one, whatever their order."""
    newest = max(one.number, other.number)
    return one.group, newest, one.amount + other.amount, one.ones + other.ones


def watermarked(frame: DataFrame) -> DataFrame:
    """The input with event times and their watermark."""
    timed = frame.withColumn("time", F.timestamp_millis("at"))
    return timed.withWatermark("time", f"{DELAY_MS} milliseconds")


def build_sums(
    ledger: OperatorStream, renamed: Mapping[str, str] = MappingProxyType({})
) -> OperatorStream:
    """Sums of each group; what comes out has a row for each group and batch."""
    sums = ledger.key_by("group").aggregate_sum("ones", "amount", queryable_name=GROUP_SUMS)
    return sums.uid(renamed.get(SUMS, SUMS))


def build_windows(ledger: OperatorStream) -> OperatorStream:
    """Sums of each group and window, with late rows; what comes out has a row for each firing."""
    windowed = ledger.key_by("group").window(
        TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    )
    sums = windowed.allowed_lateness(LATENESS_MS).reduce(
        added, OfWindow(), _FIRED, queryable_name=WINDOW_SUMS
    )
    return sums.uid(WINDOWS)


def build_ledger(
    rows: DataStream, renamed: Mapping[str, str] = MappingProxyType({})
) -> OperatorStream:
    """The first operator, which passes every row on.

    `renamed`: other uids and names of states than the usual ones.
    """
    ledger = rows.key_by("key", order_by=None).process(Ledger(dict(renamed)), _OUTPUT)
    return ledger.uid(renamed.get(LEDGER, LEDGER))
