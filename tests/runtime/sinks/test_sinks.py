"""The latest-value sink, and columns written as value bytes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.runtime.columns.arrow_types import (
    to_arrow_value,
    to_python,
    type_of_arrow,
)
from queryable_state.streaming.runtime.columns.value_columns import (
    decode_column,
    decode_rows,
    encode_column,
    encode_rows,
)
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.wire.arrow.arrow_types import arrow_type
from queryable_state.wire.errors import (
    InvalidRequestError,
    LimitExceededError,
    SerializationError,
)
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, type_info
from queryable_state.wire.values.value_codec import ValueCodec


def latest(value_type: object, input_type: object, key_by: str, **kw: Any) -> KeyedOperatorHarness:
    descriptor = ValueStateDescriptor("latest", value_type)
    descriptor.set_queryable("lastTemperature")
    return KeyedOperatorHarness(LatestValueSink(descriptor), input_type, key_by=key_by, **kw)


ROW = "sensor STRING, degrees DOUBLE, at TIMESTAMP"
AT = datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def test_the_last_row_of_a_batch_wins_over_all_chunks() -> None:
    harness = latest(ROW, ROW, "sensor", chunk_rows=2)
    assert harness.process([("a", float(i), AT) for i in range(5)] + [("b", 9.0, AT)]) == []
    harness.process([("b", 1.0, None), ("b", None, None)])

    assert harness.state("latest", "a") == ("a", 4.0, AT)
    assert harness.state("latest", "b") == ("b", None, None)


def test_the_sink_reads_nothing() -> None:
    harness = latest(ROW, ROW, "sensor")
    harness.process([("a", 1.0, AT)])
    harness.process([("a", 2.0, AT)])
    assert isinstance(harness.backend, InMemoryStateBackend)
    assert harness.backend.fetch_calls == 0


def test_a_null_element_removes_what_is_stored() -> None:
    harness = latest("double", "k STRING, v DOUBLE", "k", value_column="v")
    harness.process([("a", 1.0), ("b", 2.0)])
    assert harness.state("latest", "a") == 1.0
    harness.process([("a", None)])
    assert harness.state("latest", "a") is None
    assert harness.state("latest", "b") == 2.0


def test_a_column_of_another_type_is_cast_or_refused_by_name() -> None:
    wider = latest("sensor STRING, n BIGINT", "sensor STRING, n INT", "sensor")
    wider.process([("a", 7)])
    assert wider.state("latest", "a") == ("a", 7)

    narrower = latest("sensor STRING, n TINYINT", "sensor STRING, n INT", "sensor")
    with pytest.raises(SerializationError, match=r"state 'latest', column 'n' is tinyint"):
        narrower.process([("a", 300)])


def test_a_state_type_with_other_fields_is_refused() -> None:
    harness = latest("double", ROW, "sensor")
    with pytest.raises(InvalidRequestError, match="elements have the columns sensor, degrees, at"):
        harness.process([("a", 1.0, AT)])


def test_a_value_over_the_limit_names_state_key_and_type() -> None:
    harness = latest(
        "k STRING, v STRING", "k STRING, v STRING", "k", settings=RuntimeSettings(value_bytes=100)
    )
    with pytest.raises(LimitExceededError, match=r"batch 0: state 'latest', key 'a'.*struct<k"):
        harness.process([("a", "x" * 101)])


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date": st.dates(date(1, 1, 1), date(9999, 12, 31)),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
    "timestamp_ntz": st.datetimes(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "binary": st.binary(max_size=5),
    "decimal(9,3)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-3)),
    "array<int>": st.lists(st.none() | st.integers(0, 9), max_size=3),
    "map<string,int>": st.dictionaries(st.text("abc", max_size=2), st.integers(0, 9), max_size=3),
    "struct<a:int,b:string>": st.tuples(st.none() | st.integers(0, 9), st.text("ab", max_size=2)),
}


def column_of(values: list[Any], info: TypeInfo) -> pa.Array:
    convert = to_arrow_value(info)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, type=arrow_type(info))


@settings(max_examples=sampled(150))
@given(data=st.data())
def test_columns_are_written_as_the_codec_writes_each_value(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=10))
    types = [type_info(name) for name in names]
    nullable = data.draw(st.booleans())
    rows = data.draw(
        st.lists(
            st.tuples(*(st.none() | VALUES[n] if nullable else VALUES[n] for n in names)),
            min_size=1,
            max_size=5,
        )
    )
    info = TypeInfo(Kind.ROW, fields=tuple(Field(f"c{i}", of) for i, of in enumerate(types)))
    codec = ValueCodec.of(info)
    columns = [column_of([row[i] for row in rows], of) for i, of in enumerate(types)]

    encoded = encode_rows(columns, codec)

    assert encoded == [codec.encode(row) for row in rows]
    assert [to_python(c, of) for c, of in zip(decode_rows(encoded, codec), types, strict=True)] == [
        list(values) for values in zip(*rows, strict=True)
    ]


@settings(max_examples=sampled(100))
@given(data=st.data())
def test_scalars_are_written_as_the_codec_writes_them(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(VALUES)[:13]))
    info = type_info(name)
    values = data.draw(st.lists(VALUES[name], min_size=1, max_size=5))
    codec = ValueCodec.of(info)

    encoded = encode_column(column_of(values, info), codec)

    assert encoded == [codec.encode(value) for value in values]
    assert to_python(decode_column(encoded, codec), info) == values


@pytest.mark.parametrize("name", list(VALUES))
def test_arrow_types_and_types_are_two_names_of_one_thing(name: str) -> None:
    info = type_info(name)
    assert type_of_arrow(arrow_type(info)) == info


def test_an_arrow_type_that_is_no_type_of_ours_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match="duration"):
        type_of_arrow(pa.duration("s"))
