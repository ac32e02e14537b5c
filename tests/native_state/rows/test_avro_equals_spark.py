"""Rows and keys in Avro form as Spark's own encoder of state writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.native_state.rows.spark_rows import AVRO, Draw, fields, struct_of
from tests.native_state.rows.test_key_encoders_equal_spark import CASES

from queryable_state.server.native_state.rows.avro_row import AvroForm, avro_row_codec
from queryable_state.server.native_state.rows.key_encoder import versioned
from queryable_state.server.native_state.rows.key_encoders import key_encoder
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

KEY_ID, VALUE_ID = 3, 4


class AvroEncoders:
    """Spark's encoders of one schema of keys and one of values."""

    def __init__(
        self,
        spark: SparkSession,
        key: tuple[object, ...],
        value: tuple[object, ...],
        kind: str = "NoPrefixKeyStateEncoderSpec",
        *arguments: object,
    ) -> None:
        self._jvm = cast("Any", spark._jvm)
        data_type = self._jvm.org.apache.spark.sql.types.DataType
        structs = [data_type.fromJson(json.dumps(fields(*types))) for types in (key, value)]
        state = self._jvm.org.apache.spark.sql.execution.streaming.state
        spec = getattr(state, kind)(structs[0], *arguments)
        schemas = state.TestStateSchemaProvider()
        schemas.captureSchema("default", *structs, KEY_ID, VALUE_ID)
        some = self._jvm.scala.Some(schemas)
        self._rows = state.AvroStateEncoder(spec, structs[1], some, "default")
        self._keys = spec.toEncoder(self._rows, False)

    def value(self, row: bytes, width: int) -> bytes:
        """The raw value of an UnsafeRow of so many fields."""
        return bytes(self._rows.encodeValue(self._unsafe(row, width)))

    def key(self, row: bytes, width: int) -> bytes:
        """The raw key of an UnsafeRow of so many fields."""
        return bytes(self._keys.encodeKey(self._unsafe(row, width)))

    def _unsafe(self, row: bytes, width: int) -> Any:
        unsafe = self._jvm.org.apache.spark.sql.catalyst.expressions.UnsafeRow(width)
        unsafe.pointTo(row, len(row))
        return unsafe


def test_values_equal_sparks(spark: SparkSession) -> None:
    struct, types = struct_of(*AVRO), AVRO
    unsafe, codec = unsafe_row_codec(struct), avro_row_codec({VALUE_ID: struct}, VALUE_ID)
    theirs = AvroEncoders(spark, ("long",), types)
    for row in Draw(6, null_items=False, entries=1).rows(struct, 100):
        raw = theirs.value(unsafe.encode(row), len(types))
        assert versioned(codec.encode(row)).hex(" ", 8) == raw.hex(" ", 8)
        assert codec.decode(raw[1:]) == row


@pytest.mark.parametrize(
    ("kind", "types", "options"),
    [case for case in CASES if not {"byte", "short"} & set(map(str, case[1]))],
)
def test_keys_equal_sparks(
    spark: SparkSession, kind: str, types: tuple[object, ...], options: dict[str, Any]
) -> None:
    struct = struct_of(*types)
    ours, unsafe = (
        key_encoder(kind, struct, form=AvroForm(KEY_ID), **options),
        unsafe_row_codec(struct),
    )
    to_seq = cast("Any", spark._jvm).org.apache.spark.api.python.PythonUtils.toSeq
    arguments = [
        to_seq(list(each)) if isinstance(each, tuple) else each for each in options.values()
    ]
    theirs = AvroEncoders(spark, types, ("long",), kind, *arguments)
    for row in Draw(7).rows(struct, 40):
        if kind.startswith("Timestamp") and row[-1] is None:
            continue
        raw = theirs.key(unsafe.encode(row), len(types))
        assert ours.encode_key(row).hex(" ", 8) == raw.hex(" ", 8)
        assert ours.decode_key(raw) == row
