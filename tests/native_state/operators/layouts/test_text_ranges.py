"""Scans of a range of text keys seek between the sizes of texts, in place of visiting all keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.operators.state_fixture import RawPartition
from tests.native_state.rows.spark_rows import fields
from tests.samples import sampled

from queryable_state.server.native_state.operators.layouts.family_keys import FamilyKeys
from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.key_transcoding import key_transcoder
from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
from queryable_state.server.native_state.operators.layouts.text_ranges import text_row_start
from queryable_state.server.native_state.operators.state_layout import KeyRange
from queryable_state.server.native_state.rows.key_encoders import key_encoder
from queryable_state.server.native_state.rows.spark_types import parse_struct
from queryable_state.server.native_state.rows.type_infos import key_type_of
from queryable_state.server.storage.key_order import prefix_end
from queryable_state.wire.schema.type_model import Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PARTITION = 3
KINDS = ["plain", "prefix", "nested", "with a time"]


class Texts:
    """A table of text keys in one form of raw keys, with each text as its own raw value."""

    def __init__(self, kind: str, texts: Iterable[bytes | None]) -> None:
        text: Any = "binary"
        columns: list[Any] = [text]
        encoder, prefix = "NoPrefixKeyStateEncoderSpec", 0
        if kind == "nested":
            columns = [fields(text), "long"]
        elif kind != "plain":
            columns = [text, "long"]
        if kind in ("prefix", "nested"):
            encoder, prefix = "PrefixKeyScanStateEncoderSpec", 1
        elif kind == "with a time":
            encoder = "TimestampAsPostfixKeyStateEncoderSpec"
        struct = parse_struct(json.dumps(fields(*columns)))
        raw = key_encoder(encoder, struct, prefix_columns=prefix)
        leading = struct.fields[:1]
        (column,) = parse_struct(json.dumps(fields(text))).fields
        self.keys = KeyColumns([Field("c0", key_type_of(column.type))])
        family_keys = FamilyKeys(
            raw,
            5,
            key_transcoder(leading) if kind == "plain" else None,
            0,
            text_row_start(leading, is_prefix=prefix > 0),
        )

        def columns_of(values: Any) -> Any:
            return values[0] if kind == "nested" else values[:1]

        self.table = RawTable(0, family_keys, self.keys, columns_of)
        records = {}
        for each in texts:
            inner = (each,) if kind == "nested" else each
            for time in (0,) if kind == "plain" else (-1, 1):
                values = (inner,) if kind == "plain" else (inner, time)
                records[family_keys.encode_key(values)] = b""
        self.seeks = 0
        self.visited = 0
        self._raw = RawPartition([records], 0)
        self.batch_time_ms = 0

    def scan(self, source: int, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """A view of raw records that counts."""
        self.seeks += 1
        for record in self._raw.scan(source, start, end):
            self.visited += 1
            yield record

    def found(self, keys: KeyRange | None) -> list[bytes]:
        """The wire keys that a scan gives."""
        view: Any = self
        return [
            self.table.wire_key(PARTITION, raw_key)
            for raw_key, _ in self.table.scan(view, PARTITION, b"", keys)
        ]

    def wire(self, text: bytes | None) -> bytes:
        """The wire key of a text."""
        return self.keys.wire_key(PARTITION, (text,))


_BYTES = st.lists(st.sampled_from((0, 1, 2, 97, 98, 254, 255)), max_size=11).map(bytes)
_BOUND = st.binary(max_size=3) | st.tuples(
    st.just(b"\x00\x03"), st.sampled_from((b"", b"\x00", b"\x01", b"\x02")), _BYTES
).map(b"".join)


@settings(deadline=None, max_examples=sampled(300))
@given(
    st.sampled_from(KINDS), st.lists(st.none() | _BYTES, max_size=20), _BOUND, st.none() | _BOUND
)
def test_no_key_of_the_range_is_left_out(
    kind: str, texts: list[bytes | None], start: bytes, end: bytes | None
) -> None:
    """Whatever the bounds: whole keys, beginnings of keys, or bytes that no key has."""
    table = Texts(kind, texts)

    def in_range(keys: list[bytes]) -> list[bytes]:
        return [key for key in keys if start <= key and (end is None or key < end)]

    assert in_range(table.found(KeyRange(start, end))) == in_range(table.found(None))


@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_by_prefix_visits_its_keys_and_three_of_each_size(kind: str) -> None:
    texts = [f"{name}-{n}".encode() for name in ("ann", "bob", "eve") for n in range(1500)]
    table = Texts(kind, texts)
    start = table.wire(b"bob-12")[:-2]
    expected = {table.wire(text) for text in texts if text.startswith(b"bob-12")}
    found = set(table.found(KeyRange(start, prefix_end(start))))
    # The end is a text itself, which may come.
    assert found == {*expected, table.wire(b"bob-13")}
    sizes = len({len(text) for text in texts})
    per_key = 1 if kind == "plain" else 2
    assert table.visited <= per_key * len(found) + 3 * sizes
    assert table.seeks <= 1 + 3 * sizes
