"""Sums of floats do not depend on where the input is divided into batches."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled

from queryable_state.streaming.runtime.aggregates.aggregate import (
    Aggregate,
    AggregateKind,
    FieldAggregate,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.schema.types import type_info

FLOATS = st.floats(width=32, allow_nan=True) | st.sampled_from([0.1, -0.0, 1e30, -1e30])


@settings(max_examples=sampled(40))
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
