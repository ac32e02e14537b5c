"""Records of the HDFS-backed provider in the form that the RocksDB provider stores.

The HDFS-backed provider stores bare rows. Layouts know the form of the RocksDB provider only: a
version byte before each row, and the encoding of keys that are scanned by prefix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from queryable_state.server.native_state.files.store_schema import NO_PREFIX
from queryable_state.server.native_state.operators.operator_tables import DEFAULT_FAMILY
from queryable_state.server.native_state.rows.key_encoder import versioned
from queryable_state.server.native_state.rows.spark_types import parse_struct
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.operator_tables import OperatorTables

PhysicalForm = Callable[[bytes, bytes], tuple[bytes, bytes]]
"""`form(key, value)` returns raw key and raw value of a record as files have it."""

_CHECKSUM_BYTES = 4


def physical_form(operator: OperatorTables, store: str) -> PhysicalForm:
    """The form of the records of a store of the HDFS-backed provider."""
    schema = operator.families(store)[DEFAULT_FAMILY]
    skipped = _CHECKSUM_BYTES if operator.has_row_checksums else 0
    if schema.encoder.kind == NO_PREFIX:
        return lambda key, value: (versioned(key), versioned(value[skipped:]))
    decode = unsafe_row_codec(parse_struct(schema.key_schema)).decode
    encode = operator.raw_keys(store).encode_key
    return lambda key, value: (encode(decode(key)), versioned(value[skipped:]))
