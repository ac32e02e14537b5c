"""A function that runs the state operations its elements name."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReducingStateDescriptor,
)
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import Context, RuntimeContext


Program = list[tuple[str, Any]]


class Mean(AggregateFunction[int, "tuple[int, int]", float]):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Interpreter(KeyedProcessFunction):
    """Runs the operations an element names on a state of each kind, and puts out what it reads.

    An operation that raises an error of Python's collections puts out the name of its class.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", "bigint"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", "bigint"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", "string", "bigint"))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, "bigint")
        )
        self.rows = runtime_context.get_list_state(
            ListStateDescriptor("rows", Types.LIST(Types.LONG()))
        )
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean())
        )

    def process_element(self, value: Any, ctx: Context) -> list[Any]:
        results: list[Any] = []
        for name, argument in value.program:
            state, _, method = name.partition(".")
            call: Callable[..., Any] = getattr(getattr(self, state), method)
            try:
                result = call(*argument) if isinstance(argument, tuple) else call()
            except IndexError as error:
                result = type(error).__name__
            results.append(list(result) if isinstance(result, Iterator) else result)
        return [(results,)]


def interpreting(**kwargs: Any) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        Interpreter(),
        Types.ROW_NAMED(["key", "program"], ["string", Types.PICKLED_BYTE_ARRAY()]),
        key_by="key",
        output_type=Types.ROW_NAMED(["results"], [Types.PICKLED_BYTE_ARRAY()]),
        **kwargs,
    )


def run(harness: KeyedOperatorHarness, *programs: Program, key: str = "k") -> list[Any]:
    rows = [(key, pickle.dumps(program)) for program in programs]
    return [result for (result,) in harness.process(rows)]


def fetches(harness: KeyedOperatorHarness) -> list[Any]:
    assert isinstance(harness.backend, InMemoryStateBackend)
    return harness.backend.fetches
