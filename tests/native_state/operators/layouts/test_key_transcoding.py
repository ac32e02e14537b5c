"""Transcoded keys equal those of the codecs, for all columns that can be transcoded."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.key_transcoding import key_transcoder
from queryable_state.server.native_state.rows.spark_types import parse_struct
from queryable_state.server.native_state.rows.type_infos import key_type_of
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec
from queryable_state.wire.errors import CorruptDataError

_TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))  # noqa: DTZ001
VALUES = {
    "boolean": st.booleans(),
    "byte": st.integers(-(1 << 7), (1 << 7) - 1),
    "short": st.integers(-(1 << 15), (1 << 15) - 1),
    "integer": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "date": st.dates(date(1, 1, 1)),
    "timestamp": _TIMES.map(lambda time: time.replace(tzinfo=UTC)),
    "timestamp_ntz": _TIMES,
    "string": st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(),
}
WINDOW = {
    "type": "struct",
    "fields": [{"name": name, "type": "timestamp", "nullable": True} for name in ("start", "end")],
}


def _value(kind: str) -> st.SearchStrategy[Any]:
    if kind == "window":
        return st.none() | st.tuples(_value("timestamp"), _value("timestamp"))
    return st.none() | VALUES[kind]


@st.composite
def rows(draw: st.DrawFn) -> tuple[str, tuple[Any, ...]]:
    """Spark's JSON of some columns, and values of them."""
    kinds = draw(st.lists(st.sampled_from([*VALUES, "window"]), min_size=1, max_size=5))
    fields = [
        {"name": f"c{i}", "type": WINDOW if kind == "window" else kind, "nullable": True}
        for i, kind in enumerate(kinds)
    ]
    values = tuple(draw(_value(kind)) for kind in kinds)
    return json.dumps({"type": "struct", "fields": fields}), values


@given(rows())
def test_transcoding_equals_decoding_and_encoding(row: tuple[str, tuple[Any, ...]]) -> None:
    """Both ways, with another key behind the first one."""
    schema, values = row
    struct = parse_struct(schema)
    transcoder = key_transcoder(struct.fields)
    assert transcoder is not None
    key = KeyColumns(key_type_of(struct).fields).wire_key(3, values)
    data = unsafe_row_codec(struct).encode(values)
    assert transcoder.row(key + b"\x01more", 2) == (data, len(key))
    assert transcoder.key(data) == key[2:]


@given(rows(), st.integers(1, 30))
def test_a_cut_key_is_no_key(row: tuple[str, tuple[Any, ...]], cut: int) -> None:
    """A part of an encoded key is never taken for another key."""
    schema, values = row
    struct = parse_struct(schema)
    transcoder = key_transcoder(struct.fields)
    assert transcoder is not None
    key = KeyColumns(key_type_of(struct).fields).wire_key(0, values)
    with pytest.raises(CorruptDataError):
        transcoder.row(key[: max(2, len(key) - cut)], 2)


@given(rows(), st.integers(1, 60))
def test_a_cut_row_is_damage(row: tuple[str, tuple[Any, ...]], cut: int) -> None:
    """A row whose end is missing raises, or has the key of the whole row if that was padding."""
    schema, values = row
    struct = parse_struct(schema)
    transcoder = key_transcoder(struct.fields)
    assert transcoder is not None
    data = unsafe_row_codec(struct).encode(values)
    try:
        assert transcoder.key(data[:-cut]) == transcoder.key(data)
    except CorruptDataError:
        pass


@pytest.mark.parametrize("kind", ["double", "float", "decimal(10,2)", "time(6)"])
def test_other_columns_are_not_transcoded(kind: str) -> None:
    """Their keys have another form than numbers with a flipped sign."""
    schema = {"type": "struct", "fields": [{"name": "c", "type": kind, "nullable": True}]}
    assert key_transcoder(parse_struct(json.dumps(schema)).fields) is None
    assert key_transcoder(()) is None
