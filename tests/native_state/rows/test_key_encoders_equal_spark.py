"""Raw keys as Spark's own encoders of its RocksDB state stores write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.native_state.rows.spark_rows import Draw, fields, struct_of

from queryable_state.server.native_state.rows.key_encoders import key_encoder
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

NUMBERS = ("byte", "short", "integer", "long", "float", "double")
CASES: list[tuple[str, tuple[object, ...], dict[str, Any]]] = [
    ("NoPrefixKeyStateEncoderSpec", ("string", "decimal(20,2)", "long"), {}),
    ("PrefixKeyScanStateEncoderSpec", ("string", "timestamp", "long"), {"prefix_columns": 2}),
    (
        "RangeKeyScanStateEncoderSpec",
        (*NUMBERS, "string"),
        {"ordering_ordinals": tuple(range(6))},
    ),
    ("RangeKeyScanStateEncoderSpec", ("string", "long", "double"), {"ordering_ordinals": (2, 1)}),
    ("RangeKeyScanStateEncoderSpec", ("long", "short"), {"ordering_ordinals": (0, 1)}),
    ("TimestampAsPrefixKeyStateEncoderSpec", ("string", "double", "long"), {}),
    ("TimestampAsPostfixKeyStateEncoderSpec", ("string", "double", "long"), {}),
]


@pytest.mark.parametrize(("kind", "types", "options"), CASES)
def test_keys_equal_sparks(
    spark: SparkSession, kind: str, types: tuple[object, ...], options: dict[str, Any]
) -> None:
    struct = struct_of(*types)
    ours, rows = key_encoder(kind, struct, **options), unsafe_row_codec(struct)
    theirs = SparkEncoder(spark, kind, types, options)
    for row in Draw(4).rows(struct, 60):
        if kind.startswith("Timestamp") and row[-1] is None:
            continue
        raw = theirs.encode(rows.encode(row))
        assert ours.encode_key(row).hex(" ", 8) == raw.hex(" ", 8)
        assert ours.decode_key(raw) == row
        assert rows.decode(theirs.decode(raw)) == row


class SparkEncoder:
    """Spark's encoder of the keys of one schema."""

    def __init__(
        self, spark: SparkSession, kind: str, types: tuple[object, ...], options: dict[str, Any]
    ) -> None:
        self._jvm = cast("Any", spark._jvm)
        self._width = len(types)
        data_type = self._jvm.org.apache.spark.sql.types.DataType
        struct = data_type.fromJson(json.dumps(fields(*types)))
        value = data_type.fromJson(json.dumps(fields("long")))
        arguments: list[Any] = [struct]
        if "prefix_columns" in options:
            arguments.append(options["prefix_columns"])
        if "ordering_ordinals" in options:
            ordinals = list(options["ordering_ordinals"])
            arguments.append(self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(ordinals))
        state = self._jvm.org.apache.spark.sql.execution.streaming.state
        spec = getattr(state, kind)(*arguments)
        self._encoder = spec.toEncoder(state.UnsafeRowDataEncoder(spec, value), False)

    def encode(self, row: bytes) -> bytes:
        """The raw key of an UnsafeRow."""
        unsafe = self._jvm.org.apache.spark.sql.catalyst.expressions.UnsafeRow(self._width)
        unsafe.pointTo(row, len(row))
        return bytes(self._encoder.encodeKey(unsafe))

    def decode(self, key: bytes) -> bytes:
        """The UnsafeRow of a raw key."""
        return bytes(self._encoder.decodeKey(key).getBytes())
