"""Values of every type as Arrow columns, and back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled
from tests.wire.conftest import value_types, values_of

from queryable_state.streaming.functions import KeyedProcessFunction, UserFunctionError
from queryable_state.streaming.runtime.columns.arrow_types import (
    to_arrow_value,
    to_python,
    type_of_arrow,
)
from queryable_state.streaming.runtime.columns.value_columns import (
    decode_column,
    decode_fields,
    decode_rows,
    encode_column,
    encode_rows,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.arrow.arrow_types import arrow_type
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.type_serializer import PickleSerializer
from queryable_state.wire.schema.types import Kind, TypeInfo, Types, type_info
from queryable_state.wire.values.value_codec import ValueCodec


def has(info: TypeInfo, kind: Kind) -> bool:
    parts = [field.type for field in info.fields]
    parts += [part for part in (info.key, info.element) if part is not None]
    return info.kind == kind or any(has(part, kind) for part in parts)


# Arrow has no keys without fields and no struct that tells null from an empty row.
def is_column(info: TypeInfo) -> bool:
    if info.kind in (Kind.ROW, Kind.TUPLE) and not info.fields:
        return False
    parts = [field.type for field in info.fields]
    parts += [part for part in (info.key, info.element) if part is not None]
    return all(map(is_column, parts))


COLUMNS = value_types().filter(lambda info: is_column(info) and not has(info, Kind.PICKLED))


def column_of(values: list[Any], info: TypeInfo) -> pa.Array:
    convert = to_arrow_value(info)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pa.array(values, type=arrow_type(info))


@settings(max_examples=sampled(200))
@given(data=st.data())
def test_values_of_every_type_are_columns_and_come_back(data: st.DataObject) -> None:
    info = data.draw(COLUMNS)
    # NaN does not equal itself.
    numbers = values_of(info, nulls=True).filter(lambda value: "nan" not in repr(value))
    values = data.draw(st.lists(st.none() | numbers, max_size=4))
    column = column_of(values, info)
    assert to_python(column, info) == values
    given_values = [value for value in values if value is not None]
    codec = ValueCodec.of(info)
    encoded = encode_column(column_of(given_values, info), codec)
    assert encoded == [codec.encode(value) for value in given_values]
    assert to_python(decode_column(encoded, codec), info) == given_values


@pytest.mark.parametrize(
    ("info", "value", "arrow"),
    [
        (Types.SQL_TIME(), time(23, 59, 59, 999999), pa.time64("ns")),
        (Types.INSTANT(), Instant(-1, 5000), pa.timestamp("us", tz="UTC")),
        (Types.BIG_INT(), -(10**38 - 1), pa.decimal128(38, 0)),
        (Types.CUSTOM(PickleSerializer()), {1: [2]}, pa.binary()),
        (Types.LIST(PickleSerializer()), [{1}, None], pa.list_(pa.binary())),
    ],
)
def test_types_without_a_type_of_their_own_in_arrow(
    info: TypeInfo, value: Any, arrow: pa.DataType
) -> None:
    column = column_of([value, None], info)
    assert column.type == arrow
    assert to_python(column, info) == [value, None]


@dataclass
class Visit:
    page: str
    seconds: list[float]


def test_rows_of_a_class_are_columns_like_other_rows() -> None:
    codec = ValueCodec.of(type_info(Visit))
    visits = [Visit("a", [1.0]), Visit("b", [])]
    encoded = [codec.encode(visit) for visit in visits]
    pages, seconds = decode_rows(encoded, codec)
    assert pages.to_pylist() == ["a", "b"]
    assert decode_fields(encoded, codec, [1])[0].to_pylist() == seconds.to_pylist() == [[1.0], []]
    assert encode_rows([pages, seconds], codec) == encoded
    assert to_python(decode_column(encoded, codec), codec.type_info) == visits


def test_times_of_day_in_columns_are_a_type() -> None:
    for unit in ("us", "ns"):
        assert type_of_arrow(pa.time64(unit)) == Types.SQL_TIME()


class PutOut(KeyedProcessFunction):
    def __init__(self, *outputs: Any) -> None:
        self.outputs = outputs

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        return self.outputs


def put_out(info: Any, *values: Any) -> list[Any]:
    harness = KeyedOperatorHarness(
        PutOut(*values), "int", key_by="value", output_type=info, parallelism=1
    )
    return harness.process([1])


def test_outputs_of_the_new_types() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert put_out(Types.SQL_TIME(), time(1, 2, 3)) == [time(1, 2, 3)]
    assert put_out(Types.INSTANT(), noon, Instant(1, 0)) == [
        Instant.of_datetime(noon),
        Instant(1, 0),
    ]
    assert put_out(Types.BIG_INT(), 2**100) == [2**100]
    assert put_out(PickleSerializer(), {1}) == [{1}]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("time", time(1, tzinfo=UTC)),
        ("time", datetime(2026, 1, 1, tzinfo=UTC)),
        ("instant", datetime(2026, 1, 1)),  # noqa: DTZ001 - it has no zone, which is the point
        ("instant", Instant(0, 1)),
        ("instant", Instant(10**12, 0)),
        ("big_int", 10**38),
        ("big_int", 1.0),
        ("big_int", True),
    ],
)
def test_an_output_that_would_lose_something_is_refused(written: str, value: Any) -> None:
    with pytest.raises(UserFunctionError, match="the output column 'value' is"):
        put_out(type_info(written), value)
