"""Nothing a function reads, puts out or stores depends on where a batch was cut."""

from __future__ import annotations

import copy
import itertools
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
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
from queryable_state.streaming.runtime.operators.operators import (
    Aggregate,
    AggregateKind,
    FieldAggregate,
    Reduce,
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
        outputs += harness.process([("k", pickle.dumps(_portable(program))) for program in batch])
    names = ("value", "list", "map", "last", "all", "pickles")
    return outputs, [told(harness.state(name, "k")) for name in names]


def _portable(program: Any) -> Any:
    """Memoryviews cannot be pickled."""
    if isinstance(program, memoryview):
        return bytearray(program)
    if type(program) in (list, tuple):
        return type(program)(_portable(each) for each in program)
    return program


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_cut_of_the_input_gives_the_same_outputs_and_the_same_state(
    data: st.DataObject,
) -> None:
    spec = data.draw(st.sampled_from(sorted(VALUES)), label="type")
    key_spec = data.draw(st.sampled_from(sorted(MAP_KEYS)), label="map key")
    programs = st.lists(st.lists(operations(spec, key_spec), max_size=5), min_size=2, max_size=6)
    program = data.draw(programs, label="elements")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(program) - 1), min_size=1), label="cuts"))
    edges = [0, *cuts, len(program)]
    batches = [program[a:b] for a, b in itertools.pairwise(edges)]
    assert outcome(spec, key_spec, batches) == outcome(spec, key_spec, [program])


@pytest.mark.parametrize("spec", VALUES)
def test_a_value_reads_alike_in_the_batch_that_wrote_it_and_in_the_next(spec: str) -> None:
    """Every value of every type, in every kind of state."""
    for value in VALUES[spec]:
        names = ["value.update", "list.add", "last.add", "all.add", "pickles.add"]
        # Each call has a value of its own: the function spoils what it has written.
        own = [copy.deepcopy(_portable(value)) for _ in names]
        writes: list[Any] = [(name, (one,)) for name, one in zip(names, own, strict=True)]
        writes.append(("map.put", (1, copy.deepcopy(_portable(value)))))
        reads: list[Any] = [
            (f"{name}.{'value' if name == 'value' else 'get'}", ())
            for name in ("value", "list", "last", "all", "pickles")
        ]
        reads += [("map.items", ()), ("map.get", (1,))]
        cut = outcome(spec, "bigint", [[writes], [reads]])
        assert "Error" not in cut[0][0]
        assert cut == outcome(spec, "bigint", [[writes, reads]])


def test_a_value_is_refused_by_the_call_that_writes_it() -> None:
    wrong = ("x",)
    calls: list[Any] = [("value.update", wrong), ("map.put", (1, "x")), ("list.add", wrong)]
    calls += [("list.add_all", ([1, "x"],)), ("list.update", ([1, "x"],)), ("last.add", wrong)]
    good = [("list.add", (7,)), ("value.update", (7,)), ("map.put", (1, 7)), ("last.add", (7,))]
    outputs, stored = outcome("bigint", "bigint", [[calls, good]])
    refused, (value, elements, entries, last, *_) = outputs[0], stored
    assert refused.count("SerializationError") == len(calls)
    # What was refused left nothing behind, and what came after it counts.
    assert (value, last) == (told(7), told(7))
    assert (elements, entries) == (told([7]), told({1: 7}))


FLOATS = st.floats(width=32, allow_nan=True) | st.sampled_from([0.1, -0.0, 1e30, -1e30])


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), FLOATS, FLOATS), min_size=2, max_size=12),
    data=st.data(),
)
def test_sums_of_floats_are_the_same_wherever_batches_are_cut(
    rows: list[Any], data: st.DataObject
) -> None:
    fields = tuple(
        FieldAggregate(column, kind, type_info(spec))
        for column, spec in (("f", "float"), ("d", "double"))
        for kind in (data.draw(st.sampled_from(AggregateKind)),)
    )
    cut = data.draw(st.integers(1, len(rows) - 1))
    assert stored_sums(fields, [rows[:cut], rows[cut:]]) == stored_sums(fields, [rows])


def test_a_sum_of_floats_adds_what_is_stored_first() -> None:
    """1e30 - 1e30 + 0.1 is 0.1, and 1e30 + (-1e30 + 0.1) is 0; a FLOAT rounds at each row."""
    fields = tuple(
        FieldAggregate(column, AggregateKind.SUM, type_info(spec))
        for column, spec in (("f", "float"), ("d", "double"))
    )
    rows = [("a", 0.1, 1e30), ("a", 0.2, -1e30), ("a", 0.3, 0.1), ("a", 1e7, 0.2)]
    whole = stored_sums(fields, [rows])
    assert stored_sums(fields, [rows[:1], rows[1:]]) == whole
    assert stored_sums(fields, [[row] for row in rows]) == whole
    assert whole[0].endswith("d=0.30000000000000004)")


def stored_sums(fields: tuple[FieldAggregate, ...], batches: list[list[Any]]) -> list[str]:
    harness = KeyedOperatorHarness(
        Aggregate(fields, "sums"),
        "k string, f float, d double",
        key_by="k",
        output_type="k string, f float, d double",
        parallelism=1,
        chunk_rows=3,
    )
    for batch in batches:
        harness.process(batch)
    return [repr(harness.state("sums", key)) for key in "ab"]


class KeyTeller(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Context) -> list[str]:
        return [told(ctx.get_current_key())]


def test_a_key_looks_the_same_whichever_row_of_it_comes_first() -> None:
    harness = KeyedOperatorHarness(
        KeyTeller(), "double", key_by="value", output_type="string", parallelism=1
    )
    together = harness.process([-0.0, 0.0])
    assert together == [told(0.0)] * 2
    assert harness.process([0.0]) + harness.process([-0.0]) == together


def test_reduce_puts_out_the_value_as_it_is_stored() -> None:
    descriptor = ReducingStateDescriptor("reduce", lambda a, b: (a.k, a.v + b.v), "k int, v float")

    def outputs(batches: list[list[Any]]) -> str:
        harness = KeyedOperatorHarness(
            Reduce(descriptor),
            "k int, v float",
            key_by="k",
            output_type="k int, v float",
            parallelism=1,
        )
        return told([row for batch in batches for row in harness.process(batch)])

    rows = [(1, 0.1), (1, 0.2), (1, 0.3)]
    assert outputs([rows]) == outputs([rows[:1], rows[1:]]) == outputs([[row] for row in rows])


def test_the_in_memory_state_gives_what_the_function_read() -> None:
    """The test double decodes the stored bytes, as a server's client does."""
    _, stored = outcome("float", "bigint", [[[("value.update", (0.1,)), ("map.put", (1, None))]]])
    assert stored[0] == told(float(np.float32(0.1)))
    assert stored[2] == told({1: None})
