"""Payloads straight from UnsafeRows are those that the codecs write for the decoded rows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.rows.spark_rows import COMPOSITES, OTHERS, SCALARS, Draw, struct_of

from queryable_state.server.native_state.rows.transcoding import field_transcoder, row_transcoder
from queryable_state.server.native_state.rows.type_infos import row_type_of
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.values.value_codec import ValueCodec

PROPERTY = settings(max_examples=80)
TYPES = (*SCALARS, *COMPOSITES, *OTHERS)


@PROPERTY
@given(st.lists(st.sampled_from(TYPES), max_size=12), st.integers(0, 1 << 32), st.data())
def test_payloads_are_those_of_the_codecs(
    chosen: list[object], seed: int, data: st.DataObject
) -> None:
    struct = struct_of(*chosen)
    codec, values = unsafe_row_codec(struct), ValueCodec.of(row_type_of(struct))
    some = data.draw(st.lists(st.sampled_from(range(len(chosen))), unique=True)) if chosen else []
    whole, part = row_transcoder(struct), row_transcoder(struct, some)
    values_of_part = ValueCodec.of(row_type_of(struct.select(some)))
    for row in Draw(seed).rows(struct, 4):
        encoded = codec.encode(row)
        assert values.header + whole(encoded) == values.encode(row)
        expected = values_of_part.encode([row[position] for position in some])
        assert values_of_part.header + part(encoded) == expected


@pytest.mark.parametrize("spark_type", TYPES)
def test_payloads_of_one_field(spark_type: object) -> None:
    struct = struct_of("long", spark_type)
    codec, transcode = unsafe_row_codec(struct), field_transcoder(struct, 1)
    values = ValueCodec.of(codec.row_type.fields[1].type)
    for row in Draw(5).rows(struct, 20):
        payload = transcode(codec.encode(row))
        if row[1] is None:
            assert payload is None
        else:
            assert values.header + (payload or b"") == values.encode(row[1])


@PROPERTY
@given(st.lists(st.sampled_from(TYPES), max_size=6), st.integers(0, 1 << 32), st.data())
def test_damaged_rows_are_refused_or_transcoded(
    chosen: list[object], seed: int, data: st.DataObject
) -> None:
    """Never with an error of Python, and then the payload is damage to its codec or a value."""
    struct = struct_of(*chosen)
    transcode, values = row_transcoder(struct), ValueCodec.of(row_type_of(struct))
    damaged = bytearray(unsafe_row_codec(struct).encode(Draw(seed).row(struct)))
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            place = data.draw(st.integers(0, len(damaged) - 1))
            damaged[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for row in (bytes(damaged), bytes(damaged[:cut])):
        try:
            values.decode(values.header + transcode(row))
        except CorruptDataError:
            pass
