"""Functions that emit the timestamps of their elements, pickled by value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from queryable_state.streaming import (
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
STAMPED = Types.TUPLE([Types.INT(), Types.LONG()])
NUMBERED = Types.TUPLE([Types.INT(), Types.INT()])
ALL = OutputTag("all", Types.INT())
RULES = MapStateDescriptor("rules", Types.INT(), Types.INT())


def pair(row: Any) -> Any:
    return row.k, row.n


def number_of(element: Any) -> int:
    """The number of a pair, of a tuple of it alone, or of a row."""
    if isinstance(element, int):
        return element
    return int(element.n if hasattr(element, "n") else element[-1])


class Stamped(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield number_of(value), ctx.timestamp()


class Numbered(KeyedProcessFunction):
    """Each number with its place within its key; the timestamp must be that of the element."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        place = (self.count.value() or 0) + 1
        self.count.update(place)
        yield ALL, number_of(value)
        yield place, number_of(value)


class Joined(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield number_of(value), ctx.timestamp()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield -number_of(value), ctx.timestamp()


class Ruled(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield number_of(value), ctx.timestamp()

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield -number_of(value), ctx.timestamp()


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
