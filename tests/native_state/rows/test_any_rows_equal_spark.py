"""Rows of any schema: the JVM writes the same bytes, reads ours, and partitions keys alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.answers.records import plain
from tests.native_state.rows.spark_projection import SparkProjection
from tests.native_state.rows.spark_rows import fields, struct_of
from tests.native_state.rows.spark_strategies import rows, structs

from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.rows.spark_types import UnsupportedTypeError
from queryable_state.server.native_state.rows.type_infos import key_type_of
from queryable_state.server.native_state.rows.unsafe_row import unsafe_row_codec
from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.type_model import Field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from queryable_state.server.native_state.rows.spark_types import SparkType

pytestmark = pytest.mark.spark

PROPERTY = settings(max_examples=60)
PARTITIONS = 200


@PROPERTY
@given(structs(), st.data())
def test_spark_writes_the_same_bytes_and_partitions(
    spark: SparkSession, types: list[Any], data: st.DataObject
) -> None:
    """Values that PySpark hands to Spark; maps of one entry, as PySpark keeps no order."""
    struct, codec = struct_of(*types), unsafe_row_codec(struct_of(*types))
    drawn = data.draw(st.lists(rows(struct, entries=1), min_size=1, max_size=4))
    theirs = SparkProjection(spark, fields(*types))
    columns, key_columns = _key(struct)
    groups = KeyGroups(key_columns.key_type, PARTITIONS, SPARK_HASH)
    for row, internal in zip(drawn, theirs.rows(drawn), strict=True):
        written = theirs.written(internal)
        assert codec.encode(row).hex(" ", 8) == written.hex(" ", 8)
        assert plain(codec.decode(written)) == plain(row)
        if columns:
            values = tuple(row[column] for column in columns)
            key = values if len(columns) > 1 else values[0]
            assert groups.of(key) == theirs.partition(internal, columns, PARTITIONS)


@pytest.mark.slow
@PROPERTY
@given(structs(others=True), st.data())
def test_spark_reads_our_rows_and_writes_them_alike(
    spark: SparkSession, types: list[Any], data: st.DataObject
) -> None:
    """Also those of types of which PySpark makes no values, and maps of several entries."""
    struct, codec = struct_of(*types), unsafe_row_codec(struct_of(*types))
    row = data.draw(rows(struct, entries=3))
    theirs = SparkProjection(spark, fields(*types))
    ours = codec.encode(row)
    assert theirs.written(theirs.read(ours)).hex(" ", 8) == ours.hex(" ", 8)
    assert plain(codec.decode(ours)) == plain(row)


def _key(struct: SparkType) -> tuple[list[int], KeyColumns]:
    """The columns of a struct that can be in keys, by position, and the key that they make."""
    found = {}
    for column, each in enumerate(struct.fields):
        try:
            found[column] = Field(each.name, key_type_of(each.type))
        except UnsupportedTypeError:
            continue
    return list(found), KeyColumns(tuple(found.values()))
