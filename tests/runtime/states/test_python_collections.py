"""The model of each kind of state: Python's own collections, at any cut of the input."""

from __future__ import annotations

import itertools
import pickle
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.states.interpreter import interpreting
from tests.samples import sampled

from queryable_state.streaming.runtime.states.settings import RuntimeSettings

if TYPE_CHECKING:
    from collections.abc import Callable

MAP_KEYS = st.sampled_from("abcdef")
NUMBERS = st.integers(0, 9)
LISTS = st.lists(NUMBERS, max_size=3)
POSITIONS = st.integers(-4, 4)
SLICES = st.builds(slice, POSITIONS | st.none(), POSITIONS | st.none())


class Model:
    """What the states of one key are to a user: a variable, a list, a dict and two folds."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.list: list[int] = []
        self.rows: list[list[int]] = []
        self.map: dict[str, int | None] = {}
        self.sum: int | None = None
        self.added: list[int] = []

    def run(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """What the operation returns; the class name of its IndexError."""
        try:
            return MODEL[name](self, *arguments)
        except IndexError as error:
            return type(error).__name__

    def set_map(self, key: str, value: int | None) -> None:
        self.map[key] = value

    def remove_from_map(self, key: str) -> None:
        self.map.pop(key, None)

    def set_value(self, value: int | None) -> None:
        self.value = value

    def add_to_sum(self, value: int) -> None:
        self.sum = value if self.sum is None else self.sum + value

    def clear_sum(self) -> None:
        self.sum = None

    @property
    def items(self) -> list[tuple[str, int | None]]:
        return sorted(self.map.items())


def of_list(name: str) -> dict[str, Callable[..., Any]]:
    """The operations of a list state, on the list with this name."""

    def the(model: Model) -> list[Any]:
        elements: list[Any] = getattr(model, name)
        return elements

    return {
        f"{name}.get": lambda m: list(the(m)),
        f"{name}.add": lambda m, each: the(m).append(each),
        f"{name}.add_all": lambda m, more: the(m).extend(more),
        f"{name}.update": lambda m, all_: the(m).__setitem__(slice(None), all_),
        f"{name}.clear": lambda m: the(m).clear(),
        f"{name}.is_empty": lambda m: not the(m),
        f"{name}.__bool__": lambda m: bool(the(m)),
        f"{name}.__len__": lambda m: len(the(m)),
        f"{name}.__iter__": lambda m: list(the(m)),
        f"{name}.__contains__": lambda m, each: each in the(m),
        f"{name}.__getitem__": lambda m, at: the(m)[at],
        f"{name}.__setitem__": lambda m, at, to: the(m).__setitem__(at, to),
        f"{name}.__delitem__": lambda m, at: the(m).__delitem__(at),
    }


MODEL: dict[str, Callable[..., Any]] = {
    "value.value": lambda m: m.value,
    "value.update": Model.set_value,
    "value.clear": lambda m: m.set_value(None),
    "map.get": lambda m, key: m.map.get(key),
    "map.__getitem__": lambda m, key: m.map.get(key),
    "map.contains": lambda m, key: key in m.map,
    "map.__contains__": lambda m, key: key in m.map,
    "map.put": Model.set_map,
    "map.__setitem__": Model.set_map,
    "map.put_all": lambda m, more: m.map.update(more),
    "map.remove": Model.remove_from_map,
    "map.__delitem__": Model.remove_from_map,
    "map.items": lambda m: m.items,
    "map.keys": lambda m: [key for key, _ in m.items],
    "map.__iter__": lambda m: [key for key, _ in m.items],
    "map.values": lambda m: [value for _, value in m.items],
    "map.__len__": lambda m: len(m.map),
    "map.is_empty": lambda m: not m.map,
    "map.__bool__": lambda m: bool(m.map),
    "map.clear": lambda m: m.map.clear(),
    "sum.get": lambda m: m.sum,
    "sum.add": Model.add_to_sum,
    "sum.clear": Model.clear_sum,
    "mean.get": lambda m: sum(m.added) / len(m.added) if m.added else None,
    "mean.add": lambda m, each: m.added.append(each),
    "mean.clear": lambda m: m.added.clear(),
    **of_list("list"),
    **of_list("rows"),
}


def arguments(name: str) -> st.SearchStrategy[tuple[Any, ...]]:
    """Arguments of an operation."""
    state, _, method = name.partition(".")
    one: st.SearchStrategy[Any] = LISTS if state == "rows" else NUMBERS
    some = st.lists(one, max_size=3)
    if state == "map":
        match method:
            case "put" | "__setitem__":
                return st.tuples(MAP_KEYS, NUMBERS | st.none())
            case "put_all":
                return st.tuples(st.dictionaries(MAP_KEYS, NUMBERS | st.none(), max_size=3))
            case "get" | "__getitem__" | "contains" | "__contains__" | "remove" | "__delitem__":
                return st.tuples(MAP_KEYS)
            case _:
                return st.just(())
    match method:
        case "add_all" | "update" if state in ("list", "rows"):
            return st.tuples(some)
        case "update":
            return st.tuples(NUMBERS | st.none())
        case "add" | "__contains__":
            return st.tuples(one)
        case "__getitem__" | "__delitem__":
            return st.tuples(POSITIONS | SLICES)
        case "__setitem__":
            return st.tuples(POSITIONS, one) | st.tuples(SLICES, some)
        case _:
            return st.just(())


OPERATIONS = st.sampled_from(sorted(MODEL)).flatmap(
    lambda name: st.tuples(st.just(name), arguments(name))
)
ELEMENTS = st.tuples(st.sampled_from(["k", "l"]), st.lists(OPERATIONS, max_size=6))


@settings(max_examples=sampled(150))
@given(
    elements=st.lists(ELEMENTS, min_size=1, max_size=12),
    cuts=st.sets(st.integers(1, 11)),
    chunk_rows=st.integers(1, 4),
    prefetched=st.sampled_from([1, 3, 1000]),
    value_bytes=st.sampled_from([40, 1_000_000]),
)
def test_every_state_is_what_pythons_collections_would_be_at_any_cut_of_the_input(
    elements: list[tuple[str, list[tuple[str, Any]]]],
    cuts: set[int],
    chunk_rows: int,
    prefetched: int,
    value_bytes: int,
) -> None:
    harness = interpreting(
        parallelism=1,
        chunk_rows=chunk_rows,
        settings=RuntimeSettings(map_prefetch_entries=prefetched, value_bytes=value_bytes),
    )
    models = {"k": Model(), "l": Model()}
    edges = [0, *sorted(cut for cut in cuts if cut < len(elements)), len(elements)]
    for start, end in itertools.pairwise(edges):
        batch = elements[start:end]
        expected = [[models[key].run(*each) for each in program] for key, program in batch]
        outputs = harness.process([(key, pickle.dumps(program)) for key, program in batch])
        assert [results for (results,) in outputs] == expected
    for key, model in models.items():
        assert harness.state("value", key) == model.value
        assert harness.state("map", key) == model.map
        assert harness.state("list", key) == model.list
        assert harness.state("rows", key) == model.rows
        assert harness.state("sum", key) == model.sum
