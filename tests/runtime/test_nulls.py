"""What None means to each kind of state, as in Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

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
    UserFunctionError,
)
from queryable_state.streaming.runtime.operators.operators import Reduce
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import Context, RuntimeContext


class Sum(AggregateFunction[Any, Any, Any]):
    def __init__(self, created: Any = 0, added: Any = 1) -> None:
        self.created, self.added = created, added

    def create_accumulator(self) -> Any:
        return self.created

    def add(self, value: Any, accumulator: Any) -> Any:
        return self.added

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Calls(KeyedProcessFunction):
    """Calls one given function on each element, with its states as attributes."""

    def __init__(self, call: Callable[[Any], Any], aggregate: Sum | None = None) -> None:
        self.call = call
        self.aggregate = aggregate or Sum()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", "bigint"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", "bigint"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", "string", "bigint"))
        self.least = runtime_context.get_reducing_state(
            ReducingStateDescriptor("least", min, "bigint")
        )
        self.sum = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("sum", self.aggregate, "bigint")
        )

    def process_element(self, value: Any, ctx: Context) -> list[str]:
        return [repr(self.call(self))]


def calling(call: Callable[[Any], Any], **kwargs: Any) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        Calls(call, kwargs.pop("aggregate", None)),
        "string",
        key_by="value",
        output_type="string",
        **kwargs,
    )


def test_none_clears_a_value_state() -> None:
    harness = calling(lambda f: (f.value.update(1), f.value.update(None), f.value.value())[-1])
    assert harness.process(["k"]) == ["None"]
    assert harness.state("value", "k") is None


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.list.add(None),
        lambda f: f.list.add_all([1, None]),
        lambda f: f.list.update([None]),
        lambda f: f.least.add(None),
        lambda f: f.sum.add(None),
    ],
)
def test_none_is_refused_where_values_are_added(call: Callable[[Any], Any]) -> None:
    with pytest.raises(
        SerializationError,
        match=r"state '\w+', key 'k': \w+ was called with None, but a [A-Z]+ state",
    ):
        calling(call).process(["k"])


@pytest.mark.parametrize(
    ("call", "takes"),
    [
        (lambda f: f.list.add_all(None), "add_all takes an iterable of elements, not None"),
        (lambda f: f.list.update(7), "update takes an iterable of elements, not 7"),
        (lambda f: f.map.put_all(None), "put_all takes a mapping of map keys to values"),
    ],
)
def test_a_collection_of_another_shape_is_refused(call: Callable[[Any], Any], takes: str) -> None:
    with pytest.raises(SerializationError, match=rf"state '\w+', key 'k': {takes}"):
        calling(call).process(["k"])


@pytest.mark.parametrize("limit", [1, 1000])
def test_a_null_map_value_is_a_value(limit: int) -> None:
    """In the batch that writes it and in later ones, where the map is read whole and by entry."""

    def read(f: Any) -> Any:
        return (
            f.map.get("a"),
            f.map.contains("a"),
            "a" in f.map,
            f.map.contains("z"),
            f.map.keys(),
            f.map.items(),
            f.map.values(),
            f.map.is_empty(),
        )

    settings = RuntimeSettings(map_prefetch_entries=limit)
    steps: list[Callable[[Any], Any]] = [
        lambda f: (f.map.put("a", None), f.map.put_all({"b": 1, "c": None}), read(f))[-1],
        read,
        lambda f: (f.map.put("c", 3), f.map.remove("a"), read(f))[-1],
    ]
    harness = calling(lambda f: None, settings=settings)
    told = []
    for step in steps:
        harness.spec.operator.function.call = step  # type: ignore[union-attr]
        told += harness.process(["k"])
    entries = [("a", None), ("b", 1), ("c", None)]
    with_nulls = repr((None, True, True, False, ["a", "b", "c"], entries, [None, 1, None], False))
    assert told[:2] == [with_nulls] * 2
    assert told[2].startswith("(None, False, False, False, ['b', 'c']")
    assert harness.state("map", "k") == {"b": 1, "c": 3}


@pytest.mark.parametrize(
    ("aggregate", "method"), [(Sum(created=None), "create_accumulator"), (Sum(added=None), "add")]
)
def test_an_aggregate_function_that_forgets_to_return_is_named(aggregate: Sum, method: str) -> None:
    harness = calling(lambda f: f.sum.add(1), aggregate=aggregate)
    with pytest.raises(UserFunctionError, match=f"state 'sum', key 'k': {method} of .* None"):
        harness.process(["k"])


def test_reduce_refuses_a_null_element() -> None:
    harness = KeyedOperatorHarness(
        Reduce(ReducingStateDescriptor("least", min, "int")),
        "k STRING, v INT",
        key_by="k",
        value_column="v",
        output_type="int",
    )
    with pytest.raises(
        SerializationError, match="state 'least', key 'k': add was called with None"
    ):
        harness.process([("k", None)])
