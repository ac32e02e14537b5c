"""Records of the HDFS-backed provider become those that the RocksDB provider stores."""

from __future__ import annotations

import json
import struct

from queryable_state.server.native_state.files.operator_metadata import (
    OperatorMetadata,
    StoreMetadata,
)
from queryable_state.server.native_state.files.store_schema import (
    PREFIX_SCAN,
    ColumnFamilySchema,
    KeyEncoder,
    StoreSchema,
)
from queryable_state.server.native_state.operators.operator_tables import OperatorTables
from queryable_state.server.native_state.operators.physical_form import physical_form
from queryable_state.server.native_state.rows.spark_types import parse_struct
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec


def _struct(*names: str) -> str:
    fields = [{"name": name, "type": "long", "nullable": True} for name in names]
    return json.dumps({"type": "struct", "fields": fields})


KEY = _struct("user", "sessionStartTime")
VALUE = _struct("count")
CHECKSUMS = {"spark.sql.streaming.stateStore.rowChecksum.enabled": "true"}


def operator(encoder: KeyEncoder, conf: dict[str, str] | None = None) -> OperatorTables:
    family = ColumnFamilySchema("default", KEY, VALUE, encoder)
    metadata = OperatorMetadata(0, "stateStoreSave", (StoreMetadata("default", 1, 0),))
    return OperatorTables(metadata, {"default": StoreSchema({"default": family})}, conf or {}, {})


def test_bare_rows_get_a_version_byte() -> None:
    """Keys that are found whole, and all values."""
    form = physical_form(operator(KeyEncoder("NoPrefixKeyStateEncoderSpec")), "default")
    assert form(b"key row", b"value row") == (b"\x00key row", b"\x00value row")


def test_keys_that_are_scanned_by_prefix_are_encoded_anew() -> None:
    """The bare key of a session window is one row; a raw key is the prefix and the rest."""
    bare = unsafe_row_codec(parse_struct(KEY)).encode([7, 11])
    form = physical_form(operator(KeyEncoder(PREFIX_SCAN, 1)), "default")
    key, _ = form(bare, b"")
    assert key == b"".join(
        [
            struct.pack("<i", 17),
            b"\x00",
            struct.pack("<qq", 0, 7),
            b"\x00",
            struct.pack("<qq", 0, 11),
        ]
    )


def test_checksums_of_values_are_left_out() -> None:
    """A stored value with a checksum is a checksum and a row, and the reader expects none."""
    tables = operator(KeyEncoder("NoPrefixKeyStateEncoderSpec"), CHECKSUMS)
    row = unsafe_row_codec(parse_struct(VALUE)).encode([3])
    _, value = physical_form(tables, "default")(b"", b"\xff\xff\xff\xff" + row)
    rows = tables.value_rows()
    assert rows.columns(rows.row(value)) == (3,)
