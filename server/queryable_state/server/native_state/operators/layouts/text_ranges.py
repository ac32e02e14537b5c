"""Raw keys of one text column, read by ranges of the text.

The row of a string or of binary, which a raw key begins with, is null bits, offset and size, text.
So texts of one size are neighbours, in their order, and a range of keys is a run of neighbours in
each size. Between runs a reader seeks: it visits the keys of the range, and for each size that
texts have at most three more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.native_state.rows.key_encoder import VERSION
from queryable_state.server.native_state.rows.spark_types import SparkKind
from queryable_state.server.native_state.rows.unsafe_row import WORD
from queryable_state.server.storage.key_order import key_after, prefix_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.server.native_state.operators.state_layout import KeyRange
    from queryable_state.server.native_state.rows.spark_types import SparkField

    Records = Iterator[tuple[bytes, bytes]]

_KEY_GROUP_BYTES = 2
_NULL, _NOT_NULL = b"\x00", b"\x01"
_NO_NULLS = bytes(WORD)
_SIZE_BYTES = 4
_ESCAPED_END = re.compile(rb"\x00(?!\xff)")


def text_row_start(columns: Sequence[SparkField], *, is_prefix: bool = False) -> int | None:
    """The place of the row of a text in raw keys that begin with a row of these columns.

    `is_prefix`: its size stands in front of it, as prefix scans have it; the only column may be a
    struct of the text alone. None if the columns are others.
    """
    if len(columns) != 1:
        return None
    column, place = columns[0].type, len(VERSION)
    if is_prefix:
        place += _SIZE_BYTES
        if column.kind == SparkKind.STRUCT and len(column.fields) == 1:
            column, place = column.fields[0].type, place + 2 * WORD
    return place if column.kind in (SparkKind.STRING, SparkKind.BINARY) else None


class TextRange(NamedTuple):
    """Texts from `low` to `high`, both included: all those of the keys of a range, perhaps more."""

    low: bytes
    high: bytes | None
    """None: to the last one."""


def text_range(keys: KeyRange, partition: int) -> TextRange:
    """The texts of the wire keys of a partition that are in a range; nulls are no texts."""
    first = partition.to_bytes(_KEY_GROUP_BYTES)
    low, high = b"", None
    if keys.start.startswith(first + _NOT_NULL):
        low = _text(keys.start)
    if keys.end is not None and keys.end.startswith(first):
        # In front of all texts are the null and the empty text.
        marker = keys.end[_KEY_GROUP_BYTES:][:1]
        if marker == _NOT_NULL:
            high = _text(keys.end)
        elif marker <= _NULL:
            high = b""
    return TextRange(low, high)


def _text(wire_key: bytes) -> bytes:
    """The text that a wire key begins with, or the beginning of a text."""
    escaped = wire_key[_KEY_GROUP_BYTES + len(_NOT_NULL) :]
    return _ESCAPED_END.split(escaped, maxsplit=1)[0].replace(b"\x00\xff", b"\x00")


def records_between(
    read: Callable[[bytes], Records], begin: bytes, row_start: int, texts: TextRange
) -> Records:
    """The raw records from `begin` on whose texts are in a range, and those of nulls.

    `read(begin)` returns the raw records from a raw key on. `row_start` is the place of the row
    of the text in a raw key.
    """
    head_bytes = row_start + 2 * WORD
    size_start = head_bytes - WORD
    low, high = texts
    position: bytes | None = begin
    while position is not None:
        records, position = read(position), None
        for raw_key, raw_value in records:
            size = int.from_bytes(raw_key[size_start : size_start + _SIZE_BYTES], "little")
            text = raw_key[head_bytes : head_bytes + size]
            if raw_key[row_start:size_start] != _NO_NULLS:
                yield raw_key, raw_value
            elif text < low:
                position = max(raw_key[:head_bytes] + low[:size], key_after(raw_key))
                break
            elif high is not None and text > high:
                position = prefix_end(raw_key[:head_bytes])
                break
            else:
                yield raw_key, raw_value
