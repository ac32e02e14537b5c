"""The model of list, map and reducing state: Python's own collections."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.states.interpreter import interpreting, run

from queryable_state.streaming.runtime.states.settings import RuntimeSettings

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
