"""Functions that emit the clocks of their operators, pickled by value."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext, cloudpickle

from queryable_state.streaming import (
    KeyedProcessFunction,
    TimestampAssigner,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import RuntimeContext

READING = Types.TUPLE([Types.STRING(), Types.LONG()])
SEEN = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


class OfReading(TimestampAssigner):
    """The second field of a reading."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def reading(row: Any) -> Any:
    return row.k, row.t


class Clocks(KeyedProcessFunction):
    """Each reading with its timestamp and the watermark."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[0], ctx.timestamp(), ctx.timer_service().current_watermark()


class FailsTwice(Clocks):
    """Fails both attempts of a task at one reading, and succeeds in the next run."""

    def __init__(self, attempts: str) -> None:
        self.attempts = attempts

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value == ("a", 8_000):
            with Path(self.attempts).open("a+") as file:
                file.write("x")
                file.seek(0)
                if len(file.read()) <= 2:
                    raise RuntimeError("on purpose")
        yield from super().process_element(value, ctx)


class Behind(KeyedProcessFunction):
    """The watermark of an operator behind another one."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[0], ctx.timestamp(), ctx.current_watermark()


class Sum(KeyedProcessFunction):
    """The sum of the times of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class SumWithTimers(Sum):
    """The same in a job with a marker source."""

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Not called in these tests."""


class Timed(Clocks):
    """A function with timers, so its job has a marker source. Each task writes its operator, batch
    and subtask to a log."""

    def __init__(self, name: str, log: str) -> None:
        self.name = name
        self.log = log

    def open(self, runtime_context: RuntimeContext) -> None:
        self.timers = runtime_context.get_state(ValueStateDescriptor("instead", Types.LONG()))
        task = TaskContext.get()
        if task is not None:
            batch = task.getLocalProperty("streaming.sql.batchId")
            with Path(self.log).open("a") as log:
                log.write(f"{self.name} {batch} {task.partitionId()}\n")

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        """Not called in these tests."""


class Alarm(KeyedProcessFunction):
    """Registers timers: an event-time timer 100 ms behind each element, and a processing-time timer
    `wait_ms` behind the batch. Timers emit their key, timestamp and watermark."""

    def __init__(self, wait_ms: int = 0) -> None:
        self.wait_ms = wait_ms

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        if self.wait_ms:
            timers.register_processing_time_timer(timers.current_processing_time() + self.wait_ms)
        else:
            timers.register_event_time_timer(ctx.timestamp() + 100)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
