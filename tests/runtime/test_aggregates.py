"""Built-in sum, min and max, and reduce functions, against dictionaries."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled

from queryable_state.streaming.functions import ReduceFunction, ReducingStateDescriptor
from queryable_state.streaming.runtime.aggregates.aggregate import (
    Aggregate,
    AggregateKind,
    FieldAggregate,
)
from queryable_state.streaming.runtime.operators.declared_states import declared_states
from queryable_state.streaming.runtime.operators.operators import Reduce, ReducingSink
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError, SerializationError
from queryable_state.wire.schema.types import Types, type_info

if TYPE_CHECKING:
    from collections.abc import Callable


def aggregating(
    *columns: tuple[str, str, str], key_by: str | list[str] = "k", key: str = "k STRING", **kw: Any
) -> KeyedOperatorHarness:
    """Aggregates of (kind, column, type) over rows of the key and these columns."""
    fields = tuple(
        FieldAggregate(column, AggregateKind(kind), type_info(of)) for kind, column, of in columns
    )
    named = dict.fromkeys(f"{column} {of}" for _, column, of in columns)
    outputs = ", ".join(f"{column} {of}" for _, column, of in columns)
    return KeyedOperatorHarness(
        Aggregate(fields, "aggregate", "totals"),
        ", ".join([key, *named]),
        key_by=key_by,
        output_type=f"{key}, {outputs}",
        **kw,
    )


def sum_of(values: list[Any]) -> Any:
    return sum(values[1:], start=values[0])


MODEL: dict[str, Callable[[list[Any]], Any]] = {"sum": sum_of, "min": min, "max": max}
longs = st.integers(-(2**40), 2**40)
VALUES = {
    "bigint": longs,
    "int": st.integers(-1000, 1000),
    "double": st.integers(-1000, 1000).map(float),
    "decimal(12,2)": st.integers(-99999, 99999).map(lambda n: Decimal(n).scaleb(-2)),
    "string": st.text(max_size=4),
    "date": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "timestamp": st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001
        lambda moment: moment.replace(tzinfo=UTC)
    ),
    "boolean": st.booleans(),
    "binary": st.binary(max_size=3),
}


@settings(max_examples=sampled(60))
@given(data=st.data())
def test_aggregates_are_those_of_a_dictionary(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["sum", "min", "max"]))
    summable = ["bigint", "int", "double", "decimal(12,2)"]
    of = data.draw(st.sampled_from(summable if kind == "sum" else list(VALUES)))
    row = st.tuples(st.sampled_from(["a", "b", "\x00", "é"]), st.none() | VALUES[of])
    batches = data.draw(st.lists(st.lists(row, max_size=12), max_size=5))
    harness = aggregating((kind, "v", of), chunk_rows=3)
    kept: dict[str, list[Any]] = {}

    for batch in batches:
        outputs = harness.process(batch)
        for key, value in batch:
            kept.setdefault(key, [])
            if value is not None:
                kept[key].append(value)
        touched = {key for key, _ in batch}
        expected = {key: MODEL[kind](kept[key]) if kept[key] else None for key in touched}
        assert dict(outputs) == expected
        assert len(outputs) == len(touched)

    for key, values in kept.items():
        assert harness.state("aggregate", key) == (MODEL[kind](values) if values else None)


def test_several_aggregates_are_one_state_with_nulls_of_their_own() -> None:
    harness = aggregating(
        ("sum", "n", "bigint"),
        ("max", "t", "double"),
        ("min", "s", "string"),
        key="carrier STRING, number INT",
        key_by=["carrier", "number"],
    )
    harness.process([("AA", 1, 5, None, "x"), ("AA", 1, 6, None, None), ("UA", 2, None, 1.0, "q")])

    outputs = harness.process([("AA", 1, 1, 2.5, "a")])

    assert outputs == [("AA", 1, 12, 2.5, "a")]
    assert harness.state("aggregate", ("AA", 1)) == (12, 2.5, "a")
    assert harness.state("aggregate", ("UA", 2)) == (None, 1.0, "q")


def test_each_key_is_fetched_once_and_the_batch_is_one_seal() -> None:
    harness = aggregating(("sum", "v", "bigint"), parallelism=1, chunk_rows=10)
    harness.process([(f"k{i % 50}", i) for i in range(200)])
    assert isinstance(harness.backend, InMemoryStateBackend)
    assert sum(len(fetch.keys) for fetch in harness.backend.fetches) == 50
    assert [seal.row_count for seal in harness.backend.seals["operator", 0, 0]] == [200]


def test_a_sum_beyond_its_type_fails_with_key_and_column() -> None:
    harness = aggregating(("sum", "v", "bigint"))
    harness.process([("a", 2**63 - 10)])

    with pytest.raises(SerializationError, match=r"sum of column 'v' for key 'a' .* bigint"):
        harness.run([("a", 10)])
    with pytest.raises(SerializationError, match="overflows"):
        harness.run([("a", 2**62), ("a", 2**62), ("a", 2**62)])
    assert harness.run([("a", 2**62), ("a", 9 - 2**62)]) == [("a", 2**63 - 1)]


@pytest.mark.parametrize(
    ("of", "rows", "wider"),
    [
        ("tinyint", [-128, -1], "bigint, decimal or double"),
        ("int", [2**31 - 1, 1], "bigint, decimal or double"),
        ("bigint", [2**63 - 1, 1], "decimal or double"),
        ("decimal(3,1)", [Decimal("99.9")] * 2, "a decimal with more digits before the point"),
    ],
)
def test_a_sum_is_not_wrapped_and_the_error_names_wider_types(
    of: str, rows: list[Any], wider: str
) -> None:
    with pytest.raises(SerializationError, match=f"overflows .*: cast the column to {wider}"):
        aggregating(("sum", "v", of)).process([("a", value) for value in rows])


def test_nan_is_the_largest_number() -> None:
    nan = float("nan")
    least, most = aggregating(("min", "v", "double")), aggregating(("max", "v", "double"))
    assert [math.isnan(h.process([("a", nan)])[0][1]) for h in (least, most)] == [True, True]
    assert least.process([("a", 1.0)]) == [("a", 1.0)]
    assert math.isnan(most.process([("a", 1.0)])[0][1])


def test_what_cannot_be_summed_is_refused_when_the_job_is_built() -> None:
    with pytest.raises(InvalidRequestError, match="string has no sum"):
        FieldAggregate("name", AggregateKind.SUM, Types.STRING())


def test_an_aggregate_is_registered_as_a_reducing_state() -> None:
    operator = Aggregate((FieldAggregate("v", AggregateKind.MAX, Types.INT()),), "max", "top")
    (descriptor,) = declared_states(operator)
    assert descriptor.queryable_name == "top"
    assert descriptor.kind == StateKind.REDUCING


class Longer(ReduceFunction[Any]):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2 if len(value2.text) > len(value1.text) else value1


def reducing(operator: Any, **kwargs: Any) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        operator, "k INT, text STRING", key_by="k", output_type="k INT, text STRING", **kwargs
    )


def test_reduce_puts_out_the_reduced_value_for_each_element() -> None:
    descriptor = ReducingStateDescriptor("longest", Longer(), "k INT, text STRING")
    harness = reducing(Reduce(descriptor), chunk_rows=2)

    outputs = harness.process([(1, "a"), (1, "aaa"), (1, "aa"), (2, "b")])

    assert outputs == [(1, "a"), (1, "aaa"), (1, "aaa"), (2, "b")]
    assert harness.process([(1, "cc")]) == [(1, "aaa")]
    assert harness.state("longest", 1).text == "aaa"


def test_a_reducing_sink_keeps_the_value_and_puts_out_nothing() -> None:
    descriptor = ReducingStateDescriptor("total", lambda a, b: a + b, "bigint")
    descriptor.set_queryable("totals")
    harness = KeyedOperatorHarness(ReducingSink(descriptor), "bigint", key_by="value")

    assert harness.process([3, 3, 4]) == []
    harness.process([3])
    assert harness.state("total", 3) == 9
