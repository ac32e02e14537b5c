"""Spark's encoders of state keys: the bytes under which its state stores keep a record.

A raw key is made of rows, each with a version byte, 0, before it, and of sizes and timestamps; the
modules `scan_keys` and `timestamp_keys` have the layouts. Stores with column families put the id of
the family before every raw key, two bytes, little-endian.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from queryable_state.server.native_state.rows.scan_keys import (
    NoPrefixEncoder,
    PrefixScanEncoder,
    RangeScanEncoder,
)
from queryable_state.server.native_state.rows.spark_types import SparkType, UnsupportedTypeError
from queryable_state.server.native_state.rows.timestamp_keys import (
    TimestampFirstEncoder,
    TimestampLastEncoder,
)
from queryable_state.server.native_state.rows.unsafe_form import UNSAFE_ROWS
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.native_state.rows.key_encoder import KeyEncoder, RowForm

_COLUMN_FAMILY = struct.Struct("<h")


def key_encoder(
    kind: str,
    struct_type: SparkType,
    *,
    prefix_columns: int = 0,
    ordering_ordinals: Sequence[int] = (),
    form: RowForm = UNSAFE_ROWS,
) -> KeyEncoder:
    """The encoder of Spark's name `kind`.

    `form` is the form of the rows. Raises UnsupportedTypeError for an unknown encoder and for
    columns that the encoder cannot have.
    """
    match kind:
        case "NoPrefixKeyStateEncoderSpec":
            return NoPrefixEncoder(struct_type, form)
        case "PrefixKeyScanStateEncoderSpec":
            return PrefixScanEncoder(struct_type, prefix_columns, form)
        case "RangeKeyScanStateEncoderSpec":
            return RangeScanEncoder(struct_type, ordering_ordinals, form)
        case "TimestampAsPrefixKeyStateEncoderSpec":
            return TimestampFirstEncoder(struct_type, form)
        case "TimestampAsPostfixKeyStateEncoderSpec":
            return TimestampLastEncoder(struct_type, form)
        case _:
            raise UnsupportedTypeError(
                f"key encoder {kind!r} of Spark is unknown: update this library"
            )


def in_column_family(family_id: int, key: bytes) -> bytes:
    """A raw key, or a prefix of keys, in a store with column families."""
    return _COLUMN_FAMILY.pack(family_id) + key


def split_column_family(key: bytes) -> tuple[int, bytes]:
    """The id of the column family and the raw key within it."""
    if len(key) < _COLUMN_FAMILY.size:
        raise CorruptDataError(f"a raw key of {len(key)} bytes has no column family")
    return _COLUMN_FAMILY.unpack_from(key)[0], key[_COLUMN_FAMILY.size :]
