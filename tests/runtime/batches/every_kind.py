"""A function that uses state of every kind, and values of every type to store in it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

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
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.rows import make_row
from queryable_state.wire.schema.types import Types, type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.streaming.functions import Context, RuntimeContext


BERLIN = timezone(timedelta(hours=2))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Reading:
    """An object with fields, to be pickled."""

    values: list[int]


VALUES: dict[str, list[Any]] = {
    "boolean": [True, np.False_],
    "tinyint": [True, 7, np.int8(-3)],
    "bigint": [True, 7, np.int64(1 << 40), -(1 << 63)],
    "float": [0.1, np.float64(0.1), 3, -0.0, float("nan")],
    "double": [1, 0.5, np.float32(0.1), -0.0, float("nan"), float("inf")],
    "string": ["a", "ü", np.str_("x")],
    "binary": [b"a", bytearray(b"b"), memoryview(b"c")],
    "decimal(10,2)": [Decimal("1.5"), Decimal("-0.00"), Decimal("1E2"), 3],
    "date": [date(2026, 1, 1)],
    "timestamp": [NOON, NOON.astimezone(BERLIN), NOON.replace(fold=1)],
    "timestamp_ntz": [NOON.replace(tzinfo=None), NOON.replace(tzinfo=None, fold=1)],
    "a bigint, b float": [(1, 0.1), {"b": 2}, [True, None], make_row(("a", "b"), (1, 0.1))],
    "a string, b struct<c:double>": [("x", (1,)), ("y", None), {"b": {"c": 2}}],
    "tuple<bigint,string>": [(True, "x"), [2, None]],
    "array<double>": [[1, 2.5], (1,), np.array([1.5, 2.5]), [None], {3.0}, []],
    "array<array<float>>": [[(0.1,), [1]], [None]],
    "map<bigint,array<int>>": [{True: (1,)}, {1: None}, {}],
    "map<double,string>": [{-0.0: "a", 1: "b"}],
    "a bigint, b array<string>": [(1, ["x"]), (2, ("x", None))],
    "pickled": [{"a": [1]}, Reading([1]), (1, 0.5), (1, [2]), "x", [Reading([2])], True],
}
MAP_KEYS: dict[str, list[Any]] = {
    "bigint": [1, np.int64(1), 2],
    "double": [1, 1.0, -0.0, 0.0, float("nan")],
    "float": [0.1, float(np.float32(0.1)), 2],
    "string": ["a", np.str_("a"), "b"],
    "decimal(4,1)": [Decimal(1), Decimal("1.0"), 2],
    "timestamp": [NOON, NOON.astimezone(BERLIN)],
    "a bigint, b string": [(1, "x"), make_row(("a", "b"), (1, "x"))],
}


class Latest(AggregateFunction[Any, Any, Any]):
    """The accumulator is a list that is changed in place, and shared with the result."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class EveryKind(KeyedProcessFunction):
    """Runs the operations an element names; puts out what each one read, as told by `told`."""

    def __init__(self, spec: str, key_spec: str) -> None:
        self.spec, self.key_spec = spec, key_spec

    def open(self, runtime_context: RuntimeContext) -> None:
        info = type_info(self.spec)
        self.value = runtime_context.get_state(ValueStateDescriptor("value", info))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", info))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", self.key_spec, info))
        self.last = runtime_context.get_reducing_state(
            ReducingStateDescriptor("last", lambda a, b: b if repr(a) < repr(b) else a, info)
        )
        self.all = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("all", Latest(), Types.LIST(info), Types.LIST(info))
        )
        self.pickles = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("pickles", Latest())
        )

    def process_element(self, value: Any, ctx: Context) -> list[str]:
        told_of = []
        for name, arguments in value.program:
            state, _, method = name.partition(".")
            call: Callable[..., Any] = getattr(getattr(self, state), method)
            try:
                read = call(*arguments)
            except QueryableStateError as refusal:
                told_of.append(f"{name}: {type(refusal).__name__}")
                continue
            told_of.append(f"{name}: {told(read)}")
            spoil(read)
            for argument in arguments:
                spoil(argument)
        return ["; ".join(told_of)]


def told(value: object) -> str:
    """Class and content, down to the smallest part."""
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}[{', '.join(map(told, value))}]"
    if isinstance(value, dict):
        return f"dict{[(told(key), told(each)) for key, each in value.items()]}"
    zone = getattr(value, "tzinfo", None)
    return f"{type(value).__name__} {value!r} {zone!r} {getattr(value, 'fold', 0)}"


def spoil(value: Any) -> None:
    """Changes in place whatever can be."""
    if isinstance(value, Reading):
        spoil(value.values)
    elif isinstance(value, list):
        for each in value:
            spoil(each)
        value.append("spoilt")
    elif isinstance(value, dict):
        for each in value.values():
            spoil(each)
        value["spoilt"] = 1
    elif isinstance(value, bytearray):
        value.extend(b"spoilt")
    elif isinstance(value, np.ndarray) and value.size:
        value[0] = 99
    elif isinstance(value, tuple):
        for each in value:
            spoil(each)


def operations(spec: str, key_spec: str) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    one = st.sampled_from(VALUES[spec])
    key = st.sampled_from(MAP_KEYS[key_spec])
    some = st.lists(one | st.none(), max_size=3)
    reads = ["value.value", "list.get", "last.get", "all.get", "pickles.get"]
    reads += [f"map.{read}" for read in ("items", "keys", "values", "is_empty")]
    clears = [f"{state}.clear" for state in ("value", "list", "map", "last", "all", "pickles")]
    adds = ["list.add", "last.add", "all.add", "pickles.add"]
    return st.one_of(
        st.tuples(st.sampled_from(reads), st.just(())),
        st.tuples(st.sampled_from(clears), st.just(())),
        st.tuples(st.just("value.update"), st.tuples(one | st.none())),
        st.tuples(st.sampled_from(adds), st.tuples(one | st.none())),
        st.tuples(st.sampled_from(["list.add_all", "list.update"]), st.tuples(some)),
        st.tuples(st.just("map.put"), st.tuples(key, one | st.none())),
        st.tuples(st.sampled_from(["map.get", "map.contains", "map.remove"]), st.tuples(key)),
    )


ROW = Types.ROW_NAMED(["key", "program"], ["string", Types.PICKLED_BYTE_ARRAY()])


def outcome(spec: str, key_spec: str, batches: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """Outputs of all batches, and the stored state at their end."""
    harness = KeyedOperatorHarness(
        EveryKind(spec, key_spec), ROW, key_by="key", output_type="string", parallelism=1
    )
    outputs: list[Any] = []
    for batch in batches:
        outputs += harness.process([("k", pickle.dumps(portable(program))) for program in batch])
    names = ("value", "list", "map", "last", "all", "pickles")
    return outputs, [told(harness.state(name, "k")) for name in names]


def portable(program: Any) -> Any:
    """Memoryviews cannot be pickled."""
    if isinstance(program, memoryview):
        return bytearray(program)
    if type(program) in (list, tuple):
        return type(program)(portable(each) for each in program)
    return program
