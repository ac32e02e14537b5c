"""Functions of the jobs under test, pickled by value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from queryable_state.streaming import (
    BroadcastProcessFunction,
    CoMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
ODD = OutputTag("odd", Types.INT())
LABELS = MapStateDescriptor("labels", Types.STRING(), Types.STRING())


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


class CountedSum(ReduceFunction[Any]):
    """The sum of a key's numbers, and 10 more for each call before."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.INT()))

    def reduce(self, value1: Any, value2: Any) -> Any:
        calls = self.calls.value() or 0
        self.calls.update(calls + 1)
        return value1[0], value1[1] + value2[1] + 10 * calls


class Announced(CoMapFunction):
    """The side of each element, its key, and its number within the key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map1(self, value: Any) -> str:
        return self.announced("first", value)

    def map2(self, value: Any) -> str:
        return self.announced("second", value)

    def announced(self, side: str, value: Any) -> str:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        return f"{side} {value[0]} {number}"


class Labelled(BroadcastProcessFunction):
    """The label of each pair's name and its number; broadcast pairs are names and labels."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield f"{ctx.get_broadcast_state(LABELS).get(value[0])} {value[1]}"

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(LABELS)[value[0]] = value[1]


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
