"""Functions that emit the clocks of their operators, pickled by value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from queryable_state.streaming import KeyedProcessFunction, TimestampAssigner, Types

if TYPE_CHECKING:
    from collections.abc import Iterator

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


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
