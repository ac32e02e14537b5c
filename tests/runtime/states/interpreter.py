"""A function that runs the state operations its elements name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import ListStateDescriptor, MapStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import Context, RuntimeContext


Program = list[tuple[str, Any]]


class Interpreter(KeyedProcessFunction):
    """Runs the operations an element names on the three collections, and puts out what it reads."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", "bigint"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", "string", "bigint"))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, "bigint")
        )

    def process_element(self, value: Any, ctx: Context) -> list[Any]:
        results: list[Any] = []
        for name, argument in value.program:
            state, _, method = name.partition(".")
            call: Callable[..., Any] = getattr(getattr(self, state), method)
            result = call(*argument) if isinstance(argument, tuple) else call()
            results.append(result)
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
    import pickle

    rows = [(key, pickle.dumps(program)) for program in programs]
    return [result for (result,) in harness.process(rows)]


def fetches(harness: KeyedOperatorHarness) -> list[Any]:
    assert isinstance(harness.backend, InMemoryStateBackend)
    return harness.backend.fetches
