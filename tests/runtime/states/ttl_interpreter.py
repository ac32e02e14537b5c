"""A function that applies the operations of its rows to states of all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.streaming import RuntimeContext


class Mean(AggregateFunction):
    """Sum and number of the values."""

    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> str:
        return f"{accumulator[0]}/{accumulator[1]}"

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (a[0] + b[0], a[1] + b[1])


class TtlInterpreter(KeyedProcessFunction):
    """Applies the operation of each row to its state and emits what a read returns."""

    def __init__(self, ttl: StateTtlConfig | None, *, mutable: bool, queryable: str = "") -> None:
        """`queryable`: what the queryable names begin with; empty: the states are not queryable."""
        self.ttl = ttl
        self.queryable = queryable
        # Values of mutable types are cached as bytes.
        self.element: Any = Types.LIST(Types.LONG()) if mutable else Types.LONG()
        self.wrap: Callable[[int], Any] = in_list if mutable else int

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptors = (
            ValueStateDescriptor("value", self.element),
            ReducingStateDescriptor("reducing", lambda a, b: a + b, self.element),
            AggregatingStateDescriptor(
                "aggregating", Mean(), Types.PICKLED_BYTE_ARRAY(), result_type_info=Types.STRING()
            ),
            MapStateDescriptor("map", Types.LONG(), self.element),
            ListStateDescriptor("list", self.element),
        )
        for descriptor in descriptors:
            if self.ttl is not None:
                descriptor.enable_time_to_live(self.ttl)
            if self.queryable:
                descriptor.set_queryable(self.queryable + descriptor.name)
        value, reducing, aggregating, entries, elements = descriptors
        self.value = runtime_context.get_state(value)
        self.reducing = runtime_context.get_reducing_state(reducing)
        self.aggregating = runtime_context.get_aggregating_state(aggregating)
        self.map = runtime_context.get_map_state(entries)
        self.list = runtime_context.get_list_state(elements)

    def process_element(self, row: Any, context: Any) -> Iterator[str]:
        name, _, operation = row.op.partition(".")
        state, argument = getattr(self, name), self.wrap(row.arg)
        match operation:
            case "value" | "keys" | "values" | "items" | "is_empty":
                result = getattr(state, operation)()
            case "get" if name == "map":
                result = state.get(row.arg)
            case "get":
                result = state.get()
            case "contains" | "remove":
                result = getattr(state, operation)(row.arg)
            case "put":
                result = state.put(row.arg, None if row.arg == 2 else argument)
            case "update" if name == "list":
                result = state.update([argument, argument])
            case "add" if name == "aggregating":
                result = state.add(row.arg)
            case "len":
                result = len(state)
            case "clear":
                result = state.clear()
            case _:
                result = getattr(state, operation)(argument)
        yield f"{row.key} {row.op} {result!r}"


def in_list(value: int) -> list[int]:
    """A value of a mutable type."""
    return [value]


OPERATIONS = {
    "value": ("value", "value", "update", "update", "clear"),
    "reducing": ("get", "get", "add", "add", "clear"),
    "aggregating": ("get", "get", "add", "add", "clear"),
    "map": (
        *("get", "contains", "put", "put", "put", "remove", "items", "keys", "values"),
        *("is_empty", "len", "clear"),
    ),
    "list": ("add", "add", "add", "get", "get", "get", "update", "len", "is_empty", "clear"),
}
