"""Schema files of versions 1 to 3 and their evolution; metadata of operators."""

from __future__ import annotations

import json
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.files.damage import FILE, suppress_named
from tests.native_state.files.spark_writers import chunked_text, java_text

from queryable_state.server.native_state.files.java_data import JavaData
from queryable_state.server.native_state.files.operator_metadata import parse_operator
from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.server.native_state.files.store_schema import (
    NO_PREFIX,
    PREFIX_SCAN,
    RANGE_SCAN,
    merge_schemas,
    parse_schema,
)
from queryable_state.wire.errors import CorruptDataError

_texts = st.text(st.characters(codec="utf-16"), max_size=30)


def _struct(*names: str) -> str:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    return json.dumps({"type": "struct", "fields": fields})


KEY, VALUE = _struct("k"), _struct("v")


def _family(
    name: str, value_id: int, value: str, encoder: dict[str, object], user_key: str = "{}"
) -> bytes:
    return (
        java_text(name)
        + pack(">h", 0)
        + chunked_text(KEY)
        + pack(">h", value_id)
        + chunked_text(value)
        + chunked_text(json.dumps(encoder))
        + chunked_text(user_key)
    )


def _encoder(kind: str, **options: object) -> dict[str, object]:
    return {"keyStateEncoderType": kind, **options}


def _version_3(*families: bytes) -> bytes:
    return java_text("v3") + pack(">i", len(families)) + b"".join(families)


@settings(max_examples=60)
@given(text=_texts)
def test_text_of_java_is_read_back(text: str) -> None:
    """NUL has two bytes there, and a character outside of the basic plane two surrogates."""
    assert JavaData(java_text(text), FILE).text() == text
    for size in (1, 2, 7):
        assert JavaData(chunked_text(text, size), FILE).chunked_text() == text


def test_versions_1_and_2_have_one_key_and_one_value() -> None:
    first = java_text("v1") + java_text(KEY) + java_text(VALUE)
    second = java_text("v2") + chunked_text(KEY) + chunked_text(VALUE, 10)
    for data in (first, second):
        family = parse_schema(data, FILE).default
        assert (family.key_schema, family.value_schema) == (KEY, VALUE)
        assert family.encoder.kind == NO_PREFIX
        prefixed = parse_schema(data, FILE, prefix_columns=2).default.encoder
        assert (prefixed.kind, prefixed.prefix_columns) == (PREFIX_SCAN, 2)


def test_version_3_has_column_families_with_their_encoders() -> None:
    schema = parse_schema(
        _version_3(
            _family("newest", 0, VALUE, _encoder(NO_PREFIX)),
            _family(
                "timers", 0, VALUE, {"keyStateEncoderType": RANGE_SCAN, "orderingOrdinals": [0]}
            ),
            _family(
                "map", 4, VALUE, {"keyStateEncoderType": PREFIX_SCAN, "numColsPrefixKey": 1}, KEY
            ),
        ),
        FILE,
    )
    assert schema.column_families["timers"].encoder.ordering_ordinals == (0,)
    assert schema.column_families["map"].encoder.prefix_columns == 1
    assert schema.column_families["map"].user_key_schema == KEY
    assert schema.column_families["map"].value_schema_id == 4
    assert schema.column_families["newest"].user_key_schema is None


def test_an_evolved_schema_keeps_the_earlier_ones_by_id() -> None:
    encoder = _encoder(NO_PREFIX)
    newer = _struct("v", "w")
    merged = merge_schemas(
        [
            parse_schema(_version_3(_family("a", 0, VALUE, encoder)), FILE),
            parse_schema(
                _version_3(_family("a", 1, newer, encoder), _family("b", 0, VALUE, encoder)), FILE
            ),
        ]
    )
    assert merged.column_families["a"].value_schema == newer
    assert merged.column_families["a"].value_schemas == {0: VALUE, 1: newer}
    assert merged.column_families["b"].value_schemas == {0: VALUE}


def test_another_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="version 4"):
        parse_schema(java_text("v4"), FILE)


@settings(max_examples=100)
@given(at=st.floats(0, 1, exclude_max=True), flip=st.integers(0, 255))
def test_damaged_schemas_are_errors_that_name_the_file(at: float, flip: int) -> None:
    data = _version_3(_family("map", 4, VALUE, _encoder(PREFIX_SCAN), KEY))
    changed = bytearray(data)
    position = int(at * len(data))
    with pytest.raises(CorruptDataError, match=r"7\.changelog"):
        parse_schema(data[:position], FILE)
    changed[position] ^= flip
    with suppress_named():
        parse_schema(bytes(changed), FILE)


@pytest.mark.parametrize(
    "text",
    [
        "v1\n{}",
        "v1\n{",
        'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"x"},"stateStoreInfo":[]}',
        'v2\n{"operatorInfo":{"operatorId":0,"operatorName":"x"},"stateStoreInfo":[7]}',
        "",
    ],
)
def test_metadata_that_describes_no_operator_is_damage(text: str) -> None:
    with pytest.raises(CorruptDataError, match=r"7\.changelog"):
        parse_operator(text.encode(), FILE)


def test_metadata_of_another_version_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="version 3"):
        parse_operator(b"v3\n{}", FILE)
