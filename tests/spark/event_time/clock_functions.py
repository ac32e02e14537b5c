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


class Behind(KeyedProcessFunction):
    """The watermark of an operator behind another one."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[0], ctx.timestamp(), ctx.current_watermark()


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


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
