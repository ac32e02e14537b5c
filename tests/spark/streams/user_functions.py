"""Functions of the jobs under test, pickled by value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from queryable_state.streaming import (
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    OutputTag,
    Partitioner,
    ProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
ODD = OutputTag("odd", Types.INT())


class FirstField(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class Modulo(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return int(key) % num_partitions


class Split(ProcessFunction):
    """Even numbers to the main output, odd ones to the side output."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value[1] % 2:
            yield ODD, value[1]
        else:
            yield value[0]


class KeyedSplit(KeyedProcessFunction):
    """As `Split`, with the key as main output."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if value[1] % 2:
            yield ODD, value[1]
        else:
            yield ctx.get_current_key()


class Numbered(MapFunction):
    """Each element with its number within its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value: Any) -> Any:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        return value[0], number


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
