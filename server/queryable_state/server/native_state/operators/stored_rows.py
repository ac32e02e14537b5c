"""Raw values of Spark's state stores: one row, or the rows that were appended to a key.

    one row         version (1) | row
    several         [size (4) | version (1) | row], with the store's delimiter between them

With row checksums, the row or each of the several has the checksum (4) and the size (4) of what
follows in front. Numbers are little-endian. Checksums are verified when a file is read, not here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from queryable_state.server.native_state.rows.key_encoder import without_version
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.rows.row_codec import RowCodec
    from queryable_state.wire.schema.type_model import Field

_SIZE = struct.Struct("<i")
_CHECKSUM_AND_SIZE = 8


class StoredRows:
    """Reader of the raw values of one column family. Immutable."""

    def __init__(self, codec: RowCodec, *, delimiter_bytes: int, has_checksums: bool) -> None:
        self.fields: tuple[Field, ...] = codec.row_type.fields
        self._decode = codec.decode
        self._delimiter_bytes = delimiter_bytes
        self._skipped = _CHECKSUM_AND_SIZE if has_checksums else 0

    def decode(self, raw_value: bytes) -> Columns:
        """The row of a raw value of one row."""
        return self._decode(without_version(raw_value[self._skipped :]))

    def decode_all(self, raw_value: bytes) -> list[Columns]:
        """The rows of a raw value of several rows."""
        rows: list[Columns] = []
        position, end = 0, len(raw_value)
        while position < end:
            begin = position + self._skipped + _SIZE.size
            if begin > end:
                raise CorruptDataError(f"a value of {end} bytes ends within the size of a row")
            position = begin + _SIZE.unpack_from(raw_value, begin - _SIZE.size)[0]
            if not begin < position <= end:
                raise CorruptDataError(f"a value of {end} bytes ends within a row")
            rows.append(self._decode(without_version(raw_value[begin:position])))
            position += self._delimiter_bytes
        return rows
