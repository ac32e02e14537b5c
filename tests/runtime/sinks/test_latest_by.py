"""The latest-value sink with `latest_by`: the greatest value over all batches stays."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.ordering import order_columns
from queryable_state.streaming.runtime.columns.value_columns import decode_fields, encode_rows
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.wire.arrow.arrow_types import arrow_type
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, Types, type_info
from queryable_state.wire.values.value_codec import ValueCodec

ROW = type_info("sensor STRING, degrees DOUBLE, ts BIGINT, seq INT")


def columns_of(row: TypeInfo) -> Columns:
    return Columns({field.name: field.type for field in row.fields})


def whole_rows(latest_by: Any, **options: Any) -> KeyedOperatorHarness:
    """Keeps whole rows."""
    order = order_columns(latest_by, columns_of(ROW), "latest_by")
    names = [field.name for field in ROW.fields]
    sink = LatestValueSink.of(ValueStateDescriptor("last", ROW), names, order)
    return KeyedOperatorHarness(sink, ROW, key_by="sensor", **options)


def degrees(latest_by: Any, **options: Any) -> KeyedOperatorHarness:
    """Keeps one column, which is not what the order is by."""
    order = order_columns(latest_by, columns_of(ROW), "latest_by")
    sink = LatestValueSink.of(ValueStateDescriptor("last", Types.DOUBLE()), ["degrees"], order)
    return KeyedOperatorHarness(sink, ROW, key_by="sensor", value_column="degrees", **options)


def test_a_late_row_changes_nothing_whatever_is_stored() -> None:
    for harness in (whole_rows("ts", chunk_rows=2), degrees("ts", chunk_rows=2)):
        harness.process([("a", float(ts), ts, 0) for ts in (3, 9, 5, 1, 7)] + [("b", 1.0, 1, 0)])
        harness.process([("a", 8.0, 8, 0), ("b", 2.0, 2, 0)])
        harness.process([("a", 4.0, 4, 0)])
        a, b = harness.state("last", "a"), harness.state("last", "b")
        assert [a if isinstance(a, float) else a.degrees for a in (a, b)] == [9.0, 2.0]


def test_what_is_stored_is_read_once_a_key_and_batch_and_late_rows_write_nothing() -> None:
    harness = whole_rows("ts", parallelism=1, chunk_rows=4)
    assert isinstance(harness.backend, InMemoryStateBackend)
    harness.process([("a", 1.0, 5, 0)])
    calls = harness.backend.fetch_calls
    harness.process([("a", 2.0, ts % 4, 0) for ts in range(40)])
    assert harness.backend.fetch_calls == calls + 1
    assert harness.state("last", "a") == ("a", 1.0, 5, 0)


def test_of_equal_rows_the_later_one_stays() -> None:
    harness = whole_rows("ts", chunk_rows=1)
    harness.process([("a", 1.0, 5, 0), ("a", 2.0, 5, 0), ("a", 0.0, 4, 0)])
    assert harness.state("last", "a").degrees == 2.0
    harness.process([("a", 3.0, 5, 0)])
    assert harness.state("last", "a").degrees == 3.0


def test_equal_rows_of_a_batch_are_decided_by_its_order() -> None:
    harness = whole_rows("ts", order_by="seq", chunk_rows=2)
    harness.process([("a", 1.0, 5, 9), ("a", 2.0, 5, 3), ("a", 3.0, 4, 10), ("a", 4.0, 5, 4)])
    assert harness.state("last", "a").degrees == 1.0


def test_the_order_of_the_stream_alone_decides_within_a_batch() -> None:
    harness = whole_rows(None, order_by="ts", chunk_rows=2)
    harness.process([("a", 1.0, 5, 0), ("a", 2.0, 9, 0), ("a", 3.0, 7, 0)])
    assert harness.state("last", "a").degrees == 2.0
    harness.process([("a", 4.0, 1, 0)])
    assert harness.state("last", "a").degrees == 4.0


def test_several_columns_decide_each_in_its_direction() -> None:
    harness = whole_rows(["ts", ("seq", "desc")])
    harness.process([("a", 1.0, 5, 2)])
    harness.process([("a", 2.0, 5, 3)])
    assert harness.state("last", "a").degrees == 1.0
    harness.process([("a", 3.0, 5, 1), ("a", 4.0, 4, 0)])
    assert harness.state("last", "a").degrees == 3.0


def test_a_null_is_smaller_than_every_value() -> None:
    for harness in (whole_rows("ts"), degrees("ts")):
        harness.process([("a", 1.0, None, 0), ("b", 1.0, -5, 0)])
        harness.process([("a", 2.0, None, 0), ("b", 9.0, None, 0)])
        values = [harness.state("last", key) for key in "ab"]
        assert [v if isinstance(v, float) else v.degrees for v in values] == [2.0, 1.0]
        harness.process([("a", 3.0, -(2**63), 0)])
        harness.process([("a", 4.0, None, 0)])
        a = harness.state("last", "a")
        assert (a if isinstance(a, float) else a.degrees) == 3.0


def test_a_removed_value_is_not_brought_back_by_an_older_row() -> None:
    harness = degrees("ts")
    harness.process([("a", 1.0, 5, 0)])
    harness.process([("a", None, 6, 0)])
    harness.process([("a", 2.0, 4, 0)])
    assert harness.state("last", "a") is None
    harness.process([("a", 3.0, 7, 0)])
    assert harness.state("last", "a") == 3.0


def test_a_field_of_a_column_decides() -> None:
    row = type_info("sensor STRING, window STRUCT<start: BIGINT, end: BIGINT>, mean DOUBLE")
    for latest_by in ("window", "window.end", ["window.start", "window.end"]):
        order = order_columns(latest_by, columns_of(row), "latest_by")
        sink = LatestValueSink.of(
            ValueStateDescriptor("newest", row), ["sensor", "window", "mean"], order
        )
        assert sink.order_descriptor is None
        harness = KeyedOperatorHarness(sink, row, key_by="sensor")
        harness.process(
            [("a", {"start": 60, "end": 120}, 1.0), ("a", {"start": 0, "end": 60}, 2.0)]
        )
        harness.process([("a", {"start": 0, "end": 60}, 3.0)])
        assert harness.state("newest", "a").mean == 1.0
        harness.process([("a", {"start": 60, "end": 120}, 4.0)])
        assert harness.state("newest", "a").mean == 4.0


def test_a_batch_run_again_keeps_what_it_kept() -> None:
    harness = whole_rows("ts")
    harness.process([("a", 1.0, 5, 0)])
    rows = [("a", 2.0, 5, 0), ("a", 3.0, 5, 0), ("b", 1.0, 1, 0)]
    harness.run(rows)
    harness.run(rows)
    harness.commit()
    assert harness.state("last", "a").degrees == 3.0


TIMES = st.none() | st.integers(0, 5)
EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.floats(0, 9), TIMES, TIMES), max_size=25
)


@settings(max_examples=sampled(80))
@given(
    events=EVENTS,
    cuts=st.lists(st.integers(0, 25), max_size=5),
    chunk_rows=st.integers(1, 7),
    latest_by=st.sampled_from(["ts", ("ts", "desc"), ["ts", "seq"], [("seq", "desc"), "ts"]]),
    apart=st.booleans(),
)
def test_any_cut_into_batches_leaves_the_same_state(
    events: list[Any], cuts: list[int], chunk_rows: int, latest_by: Any, apart: bool
) -> None:
    make = degrees if apart else whole_rows
    whole, cut = make(latest_by), make(latest_by, chunk_rows=chunk_rows)
    whole.process(events)
    edges = [0, *sorted(cuts), len(events)]
    for start, end in itertools.pairwise(edges):
        cut.process(events[start:end])
    for key in {event[0] for event in events}:
        assert cut.state("last", key) == whole.state("last", key)


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text("aé", max_size=3),
    "binary": st.binary(max_size=3),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "smallint": st.integers(-9, 9),
    "boolean": st.booleans(),
    "double": st.floats(allow_nan=False),
    "decimal(9,3)": st.none(),
}


@settings(max_examples=sampled(120))
@given(data=st.data())
def test_some_fields_are_read_as_the_codec_reads_them(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(FIELDS)), min_size=1, max_size=10))
    row = st.tuples(*(st.none() | FIELDS[name] for name in names))
    rows = data.draw(st.lists(row, max_size=5))
    positions = data.draw(st.lists(st.integers(0, len(names) - 1), min_size=1, max_size=3))
    types = [type_info(name) for name in names]
    info = TypeInfo(Kind.ROW, fields=tuple(Field(f"c{i}", of) for i, of in enumerate(types)))
    codec = ValueCodec.of(info)
    columns = [pa.array([r[i] for r in rows], arrow_type(of)) for i, of in enumerate(types)]
    encoded = encode_rows(columns, codec) if rows else []

    found = decode_fields(encoded, codec, positions)

    assert [column.to_pylist() for column in found] == [[r[p] for r in rows] for p in positions]
