"""Rows as Spark writes them, and rows that Spark reads: the same bytes on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.native_state.rows.spark_projection import SparkProjection
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
    for row in Draw(2).rows(struct, ROWS // 3):
        data = codec.encode(row)
        theirs = SparkProjection(spark, fields(*types))
        assert theirs.written(theirs.read(data)).hex(" ", 8) == data.hex(" ", 8)
        assert codec.decode(data) == row
