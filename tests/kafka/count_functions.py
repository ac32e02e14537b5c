"""The keyed function of the Kafka tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming import KeyedProcessFunction, MapStateDescriptor, Types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import MapState, RuntimeContext

COUNTED = Types.ROW_NAMED(["key", "number", "times"], [Types.STRING(), Types.LONG(), Types.LONG()])


class TimesOfNumbers(KeyedProcessFunction):
    """Counts how often each number of a key arrives; emits each count."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("times", Types.LONG(), Types.LONG())
        descriptor.set_queryable("times")
        self.times: MapState[int, int] = runtime_context.get_map_state(descriptor)

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, int, int]]:
        times = (self.times.get(value.number) or 0) + 1
        self.times.put(value.number, times)
        yield value.key, value.number, times
