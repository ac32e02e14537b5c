"""List, map, reducing and aggregating state: what they mean, and what they fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.streaming.descriptors import ListStateDescriptor, MapStateDescriptor
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReducingStateDescriptor,
)
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.v1.query_pb2 import ReadKind
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


def test_a_list_is_appended_to_without_being_read() -> None:
    harness = interpreting()
    for batch in range(3):
        run(harness, [("list.add", (batch,))], [("list.add_all", ([10 + batch, 20 + batch],))])

    assert fetches(harness) == []
    assert harness.state("list", "k") == [0, 10, 20, 1, 11, 21, 2, 12, 22]
    assert run(harness, [("list.add", (9,)), ("list.get", ())])[0][1][-2:] == [22, 9]


def test_a_list_is_replaced_and_cleared() -> None:
    harness = interpreting()
    run(harness, [("list.add_all", ([1, 2],))])
    run(harness, [("list.update", ([7],)), ("list.add", (8,))])
    assert harness.state("list", "k") == [7, 8]
    assert run(harness, [("list.clear", ()), ("list.get", ())]) == [[None, []]]
    assert harness.state("list", "k") == []


def test_a_long_append_is_cut_into_chunks_of_the_allowed_size() -> None:
    harness = interpreting(settings=RuntimeSettings(value_bytes=1000))
    run(harness, [("list.add_all", (range(2000),))])

    assert harness.state("list", "k") == list(range(2000))


def test_the_list_a_function_got_is_its_own() -> None:
    harness = interpreting()
    run(harness, [("list.add", (1,))])
    results = run(harness, [("list.get", ()), ("list.add", (2,)), ("list.get", ())])
    assert results == [[[1], None, [1, 2]]]


def test_a_map_is_read_and_written_by_entry() -> None:
    harness = interpreting()
    run(harness, [("map.put", ("b", 2)), ("map.put_all", ({"a": 1, "c": 3},))])
    results = run(
        harness,
        [
            ("map.get", ("a",)),
            ("map.get", ("z",)),
            ("map.contains", ("b",)),
            ("map.remove", ("b",)),
            ("map.contains", ("b",)),
            ("map.put", ("a", 10)),
            ("map.items", ()),
            ("map.keys", ()),
            ("map.values", ()),
            ("map.is_empty", ()),
        ],
    )
    assert results == [
        [
            1,
            None,
            True,
            None,
            False,
            None,
            [("a", 10), ("c", 3)],
            ["a", "c"],
            [10, 3],
            False,
        ]
    ]
    assert harness.state("map", "k") == {"a": 10, "c": 3}


def test_a_cleared_map_forgets_what_was_stored_and_not_what_comes_after() -> None:
    harness = interpreting()
    run(harness, [("map.put_all", ({"a": 1, "b": 2},))])
    results = run(harness, [("map.clear", ()), ("map.get", ("a",)), ("map.put", ("c", 3))])
    assert results == [[None, None, None]]
    assert fetches(harness) == []
    assert harness.state("map", "k") == {"c": 3}


def test_an_entry_written_before_the_map_is_read_stays() -> None:
    harness = interpreting()
    run(harness, [("map.put_all", ({"a": 1, "b": 2},))])
    results = run(harness, [("map.put", ("a", 5)), ("map.remove", ("b",)), ("map.items", ())])
    assert results[0][-1] == [("a", 5)]


def test_a_map_over_the_limit_is_read_entry_by_entry_and_whole_when_iterated() -> None:
    harness = interpreting(settings=RuntimeSettings(map_prefetch_entries=10))
    run(harness, [("map.put_all", ({f"e{i:03}": i for i in range(100)},))])

    results = run(
        harness,
        [
            ("map.get", ("e050",)),
            ("map.get", ("none",)),
            ("map.get", ("none",)),
            ("map.is_empty", ()),
            ("map.remove", ("e051",)),
            ("map.put", ("e052", -1)),
        ],
    )
    assert results[0][:4] == [50, None, None, False]
    points = [fetch for fetch in fetches(harness) if fetch.read == ReadKind.POINT]
    assert [len(fetch.keys) for fetch in points] == [1, 1]

    keys = run(harness, [("map.keys", ())])[0][0]
    assert len(keys) == 99
    assert "e051" not in keys


def test_a_reducing_state_reduces_what_is_added() -> None:
    harness = interpreting()
    assert run(harness, [("sum.get", ()), ("sum.add", (2,)), ("sum.add", (3,))])[0][0] is None
    assert run(harness, [("sum.add", (5,)), ("sum.get", ())]) == [[None, 10]]
    assert harness.state("sum", "k") == 10
    run(harness, [("sum.clear", ())])
    assert harness.state("sum", "k") is None


operations = st.lists(
    st.one_of(
        st.tuples(st.just("map.put"), st.tuples(st.sampled_from("abcdef"), st.integers(0, 9))),
        st.tuples(st.just("map.remove"), st.tuples(st.sampled_from("abcdef"))),
        st.tuples(st.just("map.get"), st.tuples(st.sampled_from("abcdef"))),
        st.tuples(st.sampled_from(["map.clear", "map.items", "map.is_empty"]), st.just(())),
        st.tuples(st.just("list.add"), st.tuples(st.integers(0, 9))),
        st.tuples(st.just("list.update"), st.tuples(st.lists(st.integers(0, 9), max_size=3))),
        st.tuples(st.sampled_from(["list.clear", "list.get"]), st.just(())),
        st.tuples(st.just("sum.add"), st.tuples(st.integers(0, 9))),
        st.tuples(st.sampled_from(["sum.clear", "sum.get"]), st.just(())),
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(operations, max_size=3), max_size=5),
    limit=st.sampled_from([1, 3, 1000]),
)
def test_states_are_what_python_collections_would_be(batches: Any, limit: int) -> None:
    harness = interpreting(
        parallelism=1, chunk_rows=2, settings=RuntimeSettings(map_prefetch_entries=limit)
    )
    entries: dict[str, int] = {}
    elements: list[int] = []
    total: int | None = None
    for batch in batches:
        expected = []
        for program in batch:
            results: list[Any] = []
            for name, argument in program:
                result: Any = None
                match name:
                    case "map.put":
                        entries[argument[0]] = argument[1]
                    case "map.remove":
                        entries.pop(argument[0], None)
                    case "map.get":
                        result = entries.get(argument[0])
                    case "map.clear":
                        entries.clear()
                    case "map.items":
                        result = sorted(entries.items())
                    case "map.is_empty":
                        result = not entries
                    case "list.add":
                        elements.append(argument[0])
                    case "list.update":
                        elements = list(argument[0])
                    case "list.clear":
                        elements = []
                    case "list.get":
                        result = list(elements)
                    case "sum.add":
                        total = argument[0] if total is None else total + argument[0]
                    case "sum.clear":
                        total = None
                    case "sum.get":
                        result = total
                results.append(result)
            expected.append(results)
        assert run(harness, *batch) == expected
    if batches and any(batches):
        assert harness.state("map", "k") == entries
        assert harness.state("list", "k") == elements
        assert harness.state("sum", "k") == total


class Average(AggregateFunction[float, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Averages(KeyedProcessFunction):
    def __init__(self, accumulator_type: object, *, queryable: bool) -> None:
        self.accumulator_type = accumulator_type
        self.queryable = queryable

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = AggregatingStateDescriptor(
            "average", Average(), self.accumulator_type, "double" if self.queryable else None
        )
        if self.queryable:
            descriptor.set_queryable("averages")
        self.average = runtime_context.get_aggregating_state(descriptor)

    def process_element(self, value: Any, ctx: Context) -> list[float | None]:
        if value.v is None:
            self.average.clear()
        else:
            self.average.add(value.v)
        return [self.average.get()]


@pytest.mark.parametrize("accumulator_type", [None, Types.TUPLE(["double", "bigint"])])
@pytest.mark.parametrize("queryable", [True, False])
def test_an_aggregating_state_keeps_its_accumulator_and_its_result(
    accumulator_type: object, queryable: bool
) -> None:
    harness = KeyedOperatorHarness(
        Averages(accumulator_type, queryable=queryable),
        "k INT, v DOUBLE",
        key_by="k",
        output_type="double",
    )
    harness.process([(1, 1.0), (1, 2.0)])

    assert harness.process([(1, 6.0)]) == [3.0]
    # Without a result the harness shows the accumulator.
    assert harness.state("average", 1) == (3.0 if queryable else (9.0, 3))
    assert harness.process([(1, None)]) == [None]
    assert harness.state("average", 1) is None
