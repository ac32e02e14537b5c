"""Values as bytes: round trips, headers, timestamp, pickles, older schema versions."""

from __future__ import annotations

import pickle
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    JobError,
    SerializationError,
)
from queryable_state.wire.schema.types import Types, type_info
from queryable_state.wire.values.value_codec import (
    PickledValue,
    Row,
    ValueCodec,
    header_of,
    is_stale,
    read_header,
    timestamp_of,
    with_timestamp,
    without_timestamp,
)

if TYPE_CHECKING:
    from tests.wire.conftest import Wire

    from queryable_state.wire.schema.type_model import TypeInfo

# A busy machine stalls: a slow example is no failure.
PROPERTY = settings(max_examples=50)


class Unpicklable:
    def __reduce__(self) -> str:
        raise RuntimeError("has an open socket")


@PROPERTY
@given(data=st.data())
def test_a_value_comes_back_whole(data: st.DataObject, values: Wire) -> None:
    info, value = data.draw(values.typed)
    codec = ValueCodec.of(info)
    # NaN is not equal to itself; the repr tells all values apart.
    assert repr(codec.decode(codec.encode(value))) == repr(value)


@PROPERTY
@given(data=st.data())
def test_many_values_decoded_at_once_are_those_of_each(data: st.DataObject, values: Wire) -> None:
    info, *pair = data.draw(values.typed_pairs)
    codec = ValueCodec.of(info)
    encoded = [codec.encode(each) for each in pair]
    decoded = codec.decode_all(encoded)
    assert decoded is None or repr(decoded) == repr([codec.decode(each) for each in encoded])


@pytest.mark.parametrize("info", [Types.STRING(), Types.LONG(), Types.DOUBLE()])
def test_values_of_which_one_is_special_are_not_decoded_at_once(info: TypeInfo) -> None:
    value: Any = "x" if info == Types.STRING() else 1
    codec = ValueCodec({1: info, 2: info}, 2)
    plain = codec.encode(value)
    assert codec.decode_all([plain, plain]) == [value, value]
    older = ValueCodec.of(info).encode(value)
    for special in (codec.encode(value, 5), older, b"", plain[:2] + b"\xff"):
        assert codec.decode_all([plain, special]) is None


@PROPERTY
@given(
    data=st.data(), timestamp=st.integers(-(2**63), 2**63 - 1), version=st.integers(0, 2**32 - 1)
)
def test_a_header_changes_nothing_of_the_value(
    data: st.DataObject, values: Wire, timestamp: int, version: int
) -> None:
    info, value = data.draw(values.typed)
    codec = ValueCodec({version: info}, version)
    encoded = codec.encode(value, timestamp)
    header = read_header(encoded)
    assert (header.schema_version, header.timestamp_ms) == (version, timestamp)
    assert encoded[header.payload_offset :] == codec.encode(value)[len(codec.header) :]
    assert repr(codec.decode(encoded)) == repr(value)
    assert is_stale(encoded, timestamp)
    assert not is_stale(encoded, timestamp - 1)
    assert not is_stale(codec.encode(value), timestamp)


@PROPERTY
@given(
    data=st.data(), timestamp=st.integers(-(2**63), 2**63 - 1), version=st.integers(0, 2**32 - 1)
)
def test_a_timestamp_is_added_and_removed_without_decoding(
    data: st.DataObject, values: Wire, timestamp: int, version: int
) -> None:
    info, value = data.draw(values.typed)
    codec = ValueCodec({version: info}, version)
    plain, stamped = codec.encode(value), codec.encode(value, timestamp)
    assert with_timestamp(plain, timestamp) == stamped
    assert without_timestamp(stamped) == without_timestamp(plain) == plain
    assert (timestamp_of(stamped), timestamp_of(plain)) == (timestamp, None)
    null = with_timestamp(codec.null, timestamp)
    assert (codec.decode(null), without_timestamp(null)) == (None, codec.null)


def test_a_fixed_width_payload_is_the_number_little_endian() -> None:
    """What writes whole columns relies on it."""
    codec = ValueCodec.of(Types.DOUBLE())
    assert codec.header + struct.pack("<d", 1.5) == codec.encode(1.5)


def test_a_top_level_null_is_refused() -> None:
    for spec in ("bigint", "string", "array<int>", "a int", "decimal(4,2)", "date"):
        with pytest.raises(SerializationError, match="null"):
            ValueCodec.of(type_info(spec)).encode(None)


@pytest.mark.parametrize(
    ("spec", "value", "text"),
    [
        ("bigint", "7", "value is bigint"),
        ("bigint", 1 << 63, "value is bigint"),
        ("float", 1e39, "value is float"),
        ("boolean", 1, "value is boolean"),
        ("string", b"a", "value is string"),
        ("string", "\ud800", "value is string"),
        ("array<int>", "abc", "value is array<int>"),
        ("array<int>", [1, "x"], r"value\[\] is int"),
        ("a int, b string", (1, 2), r"value\.b is string"),
        ("a int, b double", (1, "x"), r"value\.b is double"),
        ("a int", (1, 2), "1 fields, but the value has 2"),
        ("a int", {"b": 1}, "no field 'b'"),
        ("map<string,int>", [1], "value is map<string,int>"),
        ("map<string,int>", {None: 1}, "key of value is null"),
        ("date", "2013-01-01", "value is date"),
        ("pickled", object(), "value is pickled"),
    ],
)
def test_what_is_not_of_the_type_is_refused(spec: str, value: object, text: str) -> None:
    with pytest.raises(SerializationError, match=text):
        ValueCodec.of(type_info(spec)).encode(value)


def test_a_map_needs_keys_that_python_can_look_up() -> None:
    with pytest.raises(InvalidRequestError, match="keys of a map"):
        ValueCodec.of(type_info("map<array<int>,int>"))


def test_a_row_is_taken_by_position_and_by_name() -> None:
    codec = ValueCodec.of(type_info("count bigint, `my name` string"))
    rows: list[Any] = [(1, "x"), [1, "x"], {"my name": "x", "count": 1}, Row(1, "x")]
    assert len({codec.encode(row) for row in rows}) == 1
    row = codec.decode(codec.encode(rows[0]))
    assert isinstance(row, Row)
    assert [row.count, row["my name"], row[1]] == [1, "x", "x"]
    assert row._asdict() == {"count": 1, "my name": "x"}
    assert codec.encode(row) == codec.encode(rows[0])
    assert pickle.loads(pickle.dumps(row)).count == 1
    assert codec.decode(codec.encode({"count": 1})) == (1, None)


def test_a_spark_row_with_other_field_order_is_taken_by_name() -> None:
    row = pytest.importorskip("pyspark.sql").Row(b="x", a=1)
    codec = ValueCodec.of(type_info("a int, b string"))
    assert codec.decode(codec.encode(row)) == (1, "x")


def test_a_pickle_is_loaded_only_on_request() -> None:
    job = ValueCodec.of(Types.PICKLED_BYTE_ARRAY(), pickler=pickle.dumps, unpickle=True)
    encoded = job.encode({"a": [1]})
    assert job.decode(encoded) == {"a": [1]}
    seen = ValueCodec.of(Types.PICKLED_BYTE_ARRAY()).decode(encoded)
    assert isinstance(seen, PickledValue)
    assert seen.load() == {"a": [1]}
    assert job.encode(seen) == encoded
    assert ValueCodec.of(Types.PICKLED_BYTE_ARRAY()).encode(bytes(seen)) == encoded


def test_what_cannot_be_pickled_or_loaded_is_said() -> None:
    codec = ValueCodec.of(Types.PICKLED_BYTE_ARRAY(), pickler=pickle.dumps, unpickle=True)
    with pytest.raises(SerializationError, match="open socket"):
        codec.encode(Unpicklable())
    with pytest.raises(SerializationError, match="cannot load the pickled value"):
        codec.decode(codec.header + b"cnowhere\nto_be_found\n.")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", "empty value"),
        ("1001", "compressed"),
        ("0201", "format 0x02"),
        ("4001", "format 0x40"),
        ("00", "schema version"),
        ("0080", "schema version"),
        ("008000", "valid schema version"),
        ("00ffffffffff01", "schema version"),
        ("00ffffffff7f", "valid schema version"),
        ("2001000000", "timestamp"),
        ("0007" + "00" * 8, "known are"),
        ("0001" + "00" * 7, "not a value of type bigint"),
        ("0001" + "00" * 9, "not a value of type bigint"),
    ],
)
def test_a_bad_header_is_corrupt(data: str, text: str) -> None:
    with pytest.raises(CorruptDataError, match=text):
        ValueCodec.of(Types.LONG()).decode(bytes.fromhex(data))


def test_headers_of_schema_versions_are_shortest_numbers() -> None:
    assert header_of(127) == b"\x00\x7f"
    assert header_of(300) == b"\x00\xac\x02"
    with pytest.raises(InvalidRequestError, match="schema version"):
        header_of(1 << 32)


def test_an_older_value_reads_in_the_newer_shape() -> None:
    """Added fields are null, dropped ones left out, moved ones found by name, numbers widened."""
    old = type_info("a int, gone string, n struct<x:int>, l array<struct<y:float>>")
    new = type_info("n struct<z:int,x:bigint>, b string, l array<struct<y:double>>, a bigint")
    written = ValueCodec({1: old}, 1).encode((7, "x", (1,), [(0.5,), None]))
    row = ValueCodec({1: old, 2: new}, 2).decode(written)
    assert row == ((None, 1), None, [(0.5,), None], 7)
    assert row.l[0].y == 0.5


def test_an_incompatible_older_value_is_refused_when_met() -> None:
    codec = ValueCodec({1: Types.STRING(), 2: Types.LONG()}, 2)
    assert codec.decode(codec.encode(7)) == 7
    with pytest.raises(JobError, match="another name"):
        codec.decode(ValueCodec.of(Types.STRING()).encode("x"))


def test_a_codec_can_be_pickled() -> None:
    codec = pickle.loads(pickle.dumps(ValueCodec.of(Types.LONG())))
    assert codec.decode(codec.encode(7)) == 7
