"""Rows as Spark writes them, and rows that Spark reads: the same bytes on both sides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.native_state.rows.spark_rows import COMPOSITES, OTHERS, SCALARS, Draw, fields, struct_of

from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark

ROWS = 150


def test_rows_of_spark_are_read_and_written(spark: SparkSession) -> None:
    """Values that PySpark hands to Spark; maps of one entry, as PySpark keeps no order."""
    from pyspark.sql.types import StructType

    types = (*SCALARS[:-1], *COMPOSITES)
    struct, codec = struct_of(*types), unsafe_row_codec(struct_of(*types))
    rows = Draw(1, entries=1).rows(struct, ROWS)
    frame = spark.createDataFrame(rows, StructType.fromJson(fields(*types)))
    plan = frame._jdf.queryExecution().executedPlan()
    written = [bytes(row.getBytes()) for row in plan.executeCollect()]
    for row, data in zip(rows, written, strict=True):
        assert codec.decode(data) == row
        assert codec.encode(row).hex(" ", 8) == data.hex(" ", 8)


def test_spark_reads_our_rows_and_writes_them_alike(spark: SparkSession) -> None:
    """All types, in a row with several words of null bits: Spark takes it apart and projects it
    anew."""
    types = (*SCALARS, *COMPOSITES, *OTHERS, *("long", "string") * 30)
    struct, codec = struct_of(*types), unsafe_row_codec(struct_of(*types))
    rewrite = Rewriter(spark, fields(*types))
    for row in Draw(2).rows(struct, ROWS):
        data = codec.encode(row)
        assert rewrite(data).hex(" ", 8) == data.hex(" ", 8)
        assert codec.decode(data) == row


class Rewriter:
    """Spark's own reading and writing of the rows of one struct.

    One for a session: py4j mistakes generated classes of different structs for each other.
    Each row is written into a new buffer: of a null interval Spark leaves the bytes of the row
    before it in the buffer.
    """

    def __init__(self, spark: SparkSession, schema: dict[str, Any]) -> None:
        jvm: Any = cast("Any", spark._jvm)
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._width = len(schema["fields"])
        self._row = expressions.UnsafeRow
        struct = jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(schema))
        self._read = expressions.SafeProjection.create(struct)
        self._projection, self._struct = expressions.UnsafeProjection, struct

    def __call__(self, data: bytes) -> bytes:
        row = self._row(self._width)
        row.pointTo(data, len(data))
        write = self._projection.create(self._struct)
        return bytes(write.apply(self._read.apply(row)).getBytes())
