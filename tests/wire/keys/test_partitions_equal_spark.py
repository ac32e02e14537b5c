"""The JVM and Python give every key of Spark's own state the same partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.wire.keys.spark_keys import HASHED, hash_fixture, nullable
from tests.wire.test_key_groups_equal_spark import COLUMNS, DRAW, ROWS, spark

from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.keys.chained_hash import SEED
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.spark_hash import spark_hasher
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

__all__ = ["spark"]

pytestmark = pytest.mark.spark


def test_partitions_equal_sparks(spark: SparkSession) -> None:
    """Every type alone, with nulls, and all of them as one composite key."""
    from pyspark.sql import functions as sql

    columns = {f"array<{spec}>": _list_of(draw) for spec, draw in COLUMNS.items()}
    columns.update(COLUMNS)
    names = [f"c{i}" for i in range(len(columns))]
    schema = ", ".join(f"{name} {spec}" for name, spec in zip(names, columns, strict=True))
    rows = [
        tuple(None if DRAW.random() < 0.1 else draw() for draw in columns.values())
        for _ in range(ROWS)
    ]
    by_jvm = (
        spark.createDataFrame(rows, schema)
        .select(*(sql.hash(name) for name in names), sql.hash(*names))
        .collect()
    )
    types = [nullable(spec) for spec in (*columns, schema)]
    hashers = [spark_hasher(info) for info in types]
    groups = [KeyGroups(info, 200, SPARK_HASH) for info in types]
    for row, expected in zip(rows, by_jvm, strict=True):
        for position, key in enumerate((*row, row)):
            hashed = hashers[position](key, SEED)
            assert hashed == expected[position] % (1 << 32), (types[position], key)
            assert groups[position].of(key) == expected[position] % 200


def test_fixtures_are_sparks_hashes(spark: SparkSession) -> None:
    assert jvm_hashes(spark) == hash_fixture()


def _list_of(draw: Callable[[], Any]) -> Callable[[], list[Any]]:
    return lambda: [None if DRAW.random() < 0.2 else draw() for _ in range(DRAW.randrange(4))]


def jvm_hashes(spark: SparkSession) -> dict[str, int]:
    """The hashes of all keys of the fixture, computed by Spark."""
    from pyspark.sql import functions as sql

    def hashed(spec: str, key: Any) -> int:
        fields = type_info(spec).fields
        row = key if fields else (key,)
        schema = spec if fields else f"a {spec}"
        frame = spark.createDataFrame([row], schema)
        found: int = frame.select(sql.hash(*frame.columns)).collect()[0][0]
        return found

    return {name: hashed(spec, key) for name, (spec, key) in HASHED.items()}
