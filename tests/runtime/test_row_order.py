"""A key's rows reach a function in the order it asked for, over all chunks of its task."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled

from queryable_state.streaming.descriptors import ListStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
from queryable_state.streaming.runtime.columns.arrow_types import to_arrow_value
from queryable_state.streaming.runtime.columns.row_order import (
    OrderColumn,
    has_order,
    last_rows,
    order_codes,
    sorted_rows,
)
from queryable_state.streaming.runtime.operator_feed import (
    MOST_BYTES,
    HeldRows,
    in_order,
)
from queryable_state.streaming.runtime.operators.operators import Reduce
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.arrow.arrow_types import arrow_type
from queryable_state.wire.schema.types import Types, type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROW = "key STRING, ts BIGINT, n INT"


class Log(KeyedProcessFunction):
    """Keeps and puts out the number of each element, in the order they come."""

    def open(self, runtime_context: Any) -> None:
        self.log = runtime_context.get_list_state(ListStateDescriptor("log", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        self.log.add(-1 if value.n is None else value.n)
        yield value.key, value.n


def logging(**options: Any) -> KeyedOperatorHarness:
    options = {"chunk_rows": 3, "output_type": "key STRING, n INT", **options}
    return KeyedOperatorHarness(Log(), ROW, key_by="key", **options)


def test_rows_of_all_chunks_come_in_order_and_late_batches_after_them() -> None:
    harness = logging(order_by="ts")
    rows = [("a", ts, ts) for ts in range(20)] + [("b", -ts, ts) for ts in range(20)]
    random.Random(4).shuffle(rows)
    outputs = harness.process(rows)
    assert harness.state("log", "a") == list(range(20))
    assert harness.state("log", "b") == list(reversed(range(20)))
    assert [n for key, n in outputs if key == "a"] == list(range(20))
    harness.process([("a", 7, 70), ("a", 3, 30)])
    assert harness.state("log", "a") == [*range(20), 30, 70]


def test_rows_without_an_order_come_as_they_arrive() -> None:
    harness = logging()
    harness.process([("a", 3, 1), ("a", 1, 2), ("a", 2, 3), ("a", 0, 4)])
    assert harness.state("log", "a") == [1, 2, 3, 4]


def test_several_columns_each_in_its_direction() -> None:
    rows = [("a", ts, n) for ts in (2, None, 1) for n in (5, None, 7)]
    forward = logging(order_by=["ts", ("n", "desc")])
    forward.process(rows)
    assert forward.state("log", "a") == [7, 5, -1] * 3
    backward = logging(order_by=[("ts", "desc"), "n"])
    backward.process(rows)
    assert backward.state("log", "a") == [-1, 5, 7] * 3


def test_equal_rows_keep_their_arrival_order() -> None:
    harness = logging(order_by=("ts", "desc"))
    harness.process([("a", n // 5, n) for n in range(15)])
    assert harness.state("log", "a") == [*range(10, 15), *range(5, 10), *range(5)]


def test_a_reduce_function_sees_the_order() -> None:
    descriptor = ReducingStateDescriptor("all", lambda a, b: (*a[:2], a[2] * 10 + b[2]), ROW)
    harness = KeyedOperatorHarness(
        Reduce(descriptor), ROW, key_by="key", order_by="ts", output_type=ROW, chunk_rows=2
    )
    harness.process([("a", 3, 3), ("a", 1, 1), ("a", 2, 2)])
    assert harness.state("all", "a")[2] == 123


TS = OrderColumn(column="ts", type=Types.LONG())


def ordered(
    batches: Iterator[pa.RecordBatch], *, chunk_rows: int = 1000, most_bytes: int = MOST_BYTES
) -> list[pa.RecordBatch]:
    held = HeldRows(most_bytes)
    for batch in batches:
        held.add(batch)
    return list(in_order(held, [TS], "split", chunk_rows))


def splits(batches: list[tuple[int, list[int]]]) -> Iterator[pa.RecordBatch]:
    """Batches of rows as a shuffle gives them: (partition, times)."""
    for split, times in batches:
        yield pa.RecordBatch.from_pydict(
            {
                "ts": pa.array(times, pa.int64()),
                "note": pa.array([f"{split}-{place}" for place in range(len(times))]),
                "split": pa.array([split] * len(times), pa.int32()),
            }
        )


def notes(batches: Iterable[pa.RecordBatch]) -> list[str]:
    return [note for batch in batches for note in batch.column("note").to_pylist()]


def test_equal_rows_come_by_their_partition_however_the_shuffle_was_read() -> None:
    first = splits([(0, [1, 1]), (1, [1, 0]), (2, [1])])
    again = splits([(2, [1]), (1, [1, 0]), (0, [1, 1])])
    wanted = ["1-1", "0-0", "0-1", "1-0", "2-0"]
    assert notes(ordered(first)) == wanted
    assert notes(ordered(again)) == wanted


def test_rows_beyond_memory_are_ordered_from_a_file() -> None:
    times = np.random.default_rng(7).integers(0, 500, (20, 1000))
    parts = [(split, part.tolist()) for split, part in enumerate(times)]
    held = ordered(splits(parts), chunk_rows=4096)
    spilled = ordered(splits(parts), chunk_rows=4096, most_bytes=50_000)
    assert pa.Table.from_batches(spilled) == pa.Table.from_batches(held)
    assert [batch.num_rows for batch in spilled] == [4096] * 4 + [20_000 - 4 * 4096]
    assert pa.Table.from_batches(held)["ts"].to_pylist() == sorted(times.flatten().tolist())


def test_rows_that_are_in_order_come_in_chunks_too() -> None:
    parts = [(0, list(range(start, start + 100))) for start in range(0, 1000, 100)]
    chunks = ordered(splits(parts), chunk_rows=256)
    assert [chunk.num_rows for chunk in chunks] == [256, 256, 256, 232]
    assert pa.Table.from_batches(chunks)["ts"].to_pylist() == list(range(1000))


def nan_last(value: float) -> tuple[bool, float]:
    return (value != value, 0.0 if value != value else value)


ORDERED: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "boolean": (st.booleans(), bool),
    "tinyint": (st.integers(-128, 127), int),
    "bigint": (st.integers(-(2**63), 2**63 - 1), int),
    "float": (st.floats(width=32), nan_last),
    "double": (st.floats(), nan_last),
    "date": (st.dates(date(1, 1, 1), date(9999, 12, 31)), lambda value: value),
    "timestamp": (st.datetimes(timezones=st.just(UTC)), lambda value: value),
    "timestamp_ntz": (st.datetimes(), lambda value: value),
    "string": (st.text(st.characters(exclude_categories=["Cs"]), max_size=3), str.encode),
    "binary": (st.binary(max_size=3), lambda value: value),
    "decimal(9,3)": (
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-3)),
        lambda value: value,
    ),
    "struct<start:timestamp,n:int>": (
        st.tuples(st.just(datetime(2024, 1, 1, tzinfo=UTC)), st.none() | st.integers(0, 3)),
        lambda value: (value[0], value[1] is not None, value[1] or 0),
    ),
}


@pytest.mark.parametrize("name", list(ORDERED))
@settings(max_examples=sampled(60))
@given(data=st.data())
def test_values_are_ordered_as_spark_orders_them(name: str, data: st.DataObject) -> None:
    strategy, rank = ORDERED[name]
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=12))
    descending = data.draw(st.booleans())
    info = type_info(name)
    assert has_order(info)
    convert = to_arrow_value(info) or (lambda value: value)
    column = pa.array([None if v is None else convert(v) for v in values], arrow_type(info))

    order = OrderColumn(column="c", type=info, descending=descending)
    rows = sorted_rows(order_codes([(order, column)]))

    def place(row: int) -> tuple[bool, Any]:
        value = values[row]
        return (value is not None, 0 if value is None else rank(value))

    found = list(range(len(values))) if rows is None else rows.tolist()
    assert [place(row) for row in found] == sorted(
        map(place, range(len(values))), reverse=descending
    )
    equal = [(a, b) for a, b in itertools.pairwise(found) if place(a) == place(b)]
    assert all(a < b for a, b in equal)


@settings(max_examples=sampled(100))
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2), st.integers(-2, 2)), max_size=20),
    st.integers(0, 2),
)
def test_the_last_row_of_each_key_is_the_one_a_sort_has_last(
    rows: list[tuple[int, int, int]], columns: int
) -> None:
    slots, *codes = (np.array([row[i] for row in rows], np.int64) for i in range(columns + 1))
    arranged = sorted(range(len(rows)), key=lambda row: rows[row][1 : columns + 1])
    wanted = {rows[row][0]: row for row in arranged}
    found = last_rows(slots, codes)
    assert dict(zip(*(part.tolist() for part in found), strict=True)) == wanted
    assert found[0].tolist() == sorted(wanted)
