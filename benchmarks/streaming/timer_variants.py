"""A timer of each key that moves with the key's rows, by our operators and by Spark's.

The function keeps count, sum and maximum of a key and the newest timestamp of its rows, and has a
timer an hour of event time behind it, as for an alert on keys that fall silent. No timer is due in
a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import Row

from benchmarks.streaming.session import source, start_noop
from queryable_state.streaming import KeyedProcessFunction, Types, ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from queryable_state.streaming import DataStream, OperatorStream, RuntimeContext

_SILENCE_MS: Final = 3_600_000
_STATE = "count bigint, total bigint, highest bigint, newest bigint"
_OUTPUT = "key string, count bigint, total bigint, highest bigint"
_LONG = Types.LONG()


class Newest(KeyedProcessFunction):
    """Count, sum, maximum and newest timestamp; a row for each element."""

    def open(self, runtime_context: RuntimeContext) -> None:
        names = ["count", "total", "highest", "newest"]
        descriptor = ValueStateDescriptor("totals", Types.ROW_NAMED(names, [_LONG] * 4))
        descriptor.set_queryable("totals")
        self.totals = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        number, time = value.value, ctx.timestamp() or 0
        count, total, highest, newest = self.totals.value() or (0, 0, number, time)
        count += 1
        total += number
        if number > highest:
            highest = number
        if time > newest:
            newest = time
        self.totals.update((count, total, highest, newest))
        yield (value.key, count, total, highest)


class MovedTimer(Newest):
    """The same, with a timer of the key that each element moves."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        number, time = value.value, ctx.timestamp() or 0
        count, total, highest, newest = self.totals.value() or (0, 0, number, time)
        count += 1
        total += number
        if number > highest:
            highest = number
        if count > 1:
            timers.delete_event_time_timer(newest + _SILENCE_MS)
        if time > newest:
            newest = time
        timers.register_event_time_timer(newest + _SILENCE_MS)
        self.totals.update((count, total, highest, newest))
        yield (value.key, count, total, highest)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield (ctx.get_current_key(), 0, 0, timestamp)


class MovedRowTimer(StatefulProcessor):
    """transformWithState on rows, with a timer of the key that each batch moves: once, not with
    each row, which would cost a message to the JVM each time."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.totals = handle.getValueState("totals", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        known = self.totals.get()
        count, total, highest, newest = known or (0, 0, None, 0)
        for row in rows:
            count += 1
            total += row.value
            if highest is None or row.value > highest:
                highest = row.value
            newest = max(newest, row.ms)
        if known is not None:
            self.handle.deleteTimer(known[3] + _SILENCE_MS)
        self.handle.registerTimer(newest + _SILENCE_MS)
        self.totals.update((count, total, highest, newest))
        yield Row(key=key[0], count=count, total=total, highest=highest)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Row]:
        yield Row(key=key[0], count=0, total=0, highest=expiredTimerInfo.getExpiryTimeInMs())

    def close(self) -> None:
        """Nothing to close."""


def timed(spark: SparkSession, data: Path) -> DataFrame:
    """The rows with event time."""
    return source(spark, data).withWatermark("ts", "10 seconds").select("key", "value", "ts")


def transform_with_state(spark: SparkSession, data: Path, checkpoint: Path) -> StreamingQuery:
    """`transformWithState` with event-time timers."""
    grouped: Any = (
        timed(spark, data).selectExpr("key", "value", "ts", "unix_millis(ts) AS ms").groupBy("key")
    )
    frame = grouped.transformWithState(MovedRowTimer(), _OUTPUT, "Update", "EventTime")
    return start_noop(frame, checkpoint)


def newest(rows: DataStream) -> OperatorStream:
    """A Python function without timers."""
    return rows.key_by("key", order_by=None).process(Newest(), _OUTPUT)


def moved_timer(rows: DataStream) -> OperatorStream:
    """The same function with a timer of each key."""
    return rows.key_by("key", order_by=None).process(MovedTimer(), _OUTPUT)
