"""Keys that are collated strings: joins are left out by name, Spark refuses the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from tests.native_state.programs.fixture import HDFS, ROCKSDB_CHANGELOGS
from tests.native_state.programs.written_query import WrittenQuery, settings
from tests.native_state.server.conftest import client_of, keys_of, serving

from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

    from queryable_state.server.native_state.server.native_server import NativeServer

    Read = Callable[[str], DataFrame]
    Serve = Callable[..., NativeServer]

__all__ = ["serving"]

_ROWS = [
    {"s": "Abc", "n": 1, "at": "2026-01-01T00:00:00Z"},
    {"s": "aBC", "n": 2, "at": "2026-01-01T00:00:01Z"},
    {"s": "Def", "n": 3, "at": "2026-01-01T00:00:02Z"},
]
_INPUT = "s STRING, n INT, at TIMESTAMP"
_FEW = {"spark.sql.shuffle.partitions": "2"}
_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


def _join(key: str, condition: str = "l.k = r.k") -> Callable[[Read], DataFrame]:
    def plan(read: Read) -> DataFrame:
        left = read("left").selectExpr(f"{key} AS k", "n AS left_n").alias("l")
        right = read("right").selectExpr(f"{key} AS k", "n AS right_n").alias("r")
        return left.join(right, F.expr(condition))

    return plan


def _fed(spark: SparkSession, folder: Path, plan: Callable[[Read], DataFrame]) -> WrittenQuery:
    query = WrittenQuery(
        spark,
        folder,
        inputs={"left": _INPUT, "right": _INPUT},
        plan=plan,
        output_mode="append",
        once=True,
    )
    query.feed(left=_ROWS, right=_ROWS)
    return query


@pytest.mark.parametrize(
    ("key", "version"),
    [
        ("s COLLATE UTF8_LCASE", "4"),
        ("s COLLATE UNICODE_CI", "2"),
        ("s COLLATE UTF8_BINARY_RTRIM", "2"),
        ("array(s COLLATE UTF8_LCASE)", "2"),
    ],
)
async def test_a_join_by_a_collated_string_is_refused_by_name(
    key: str, version: str, spark: SparkSession, tmp_path: Path, serving: Serve
) -> None:
    with settings(spark, {**ROCKSDB_CHANGELOGS, **_FEW, _FORMAT: version}):
        query = _fed(spark, tmp_path, _join(key))
    with pytest.raises(UnsupportedFormatError, match="may be Spark's collation keys"):
        await serving(query.checkpoint).__aenter__()


async def test_a_join_by_a_binary_column_is_served(
    spark: SparkSession, tmp_path: Path, serving: Serve
) -> None:
    with settings(spark, {**HDFS, **_FEW}):
        query = _fed(spark, tmp_path, _join("encode(s, 'UTF-8')"))
    async with serving(query.checkpoint) as server, client_of(server) as client:
        assert set(await keys_of(client, "left")) == {b"Abc", b"aBC", b"Def"}
        found = await client.get_kv_state("query", "left", b"Abc")
        assert [each.left_n for each in found.get()] == [1]


def test_spark_refuses_joins_that_only_their_condition_collates(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So the rows of a join by collation keys always have a collated string."""
    plan = _join("s", "l.k COLLATE UTF8_LCASE = r.k COLLATE UTF8_LCASE")
    with (
        settings(spark, {**ROCKSDB_CHANGELOGS, **_FEW}),
        pytest.raises(StreamingQueryException, match="BINARY_INEQUALITY"),
    ):
        _fed(spark, tmp_path, plan)


def _counted(
    key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    state.update((sum(map(len, frames)),))
    yield pd.DataFrame({"n": [1]})


_REFUSED_BY_SPARK: dict[str, Callable[[DataFrame], DataFrame]] = {
    "aggregation": lambda rows: rows.groupBy("k").count(),
    "struct": lambda rows: rows.groupBy(F.struct("k", "n").alias("both")).count(),
    "array": lambda rows: rows.groupBy(F.array("k").alias("all")).count(),
    "dropDuplicates": lambda rows: rows.dropDuplicates(["k"]),
    "withinWatermark": lambda rows: rows.dropDuplicatesWithinWatermark(["k"]),
    "sessions": lambda rows: rows.groupBy(F.session_window("at", "5 seconds"), "k").count(),
    "applyInPandasWithState": lambda rows: rows.groupBy("k").applyInPandasWithState(
        _counted, "n INT", "n INT", "update", "NoTimeout"
    ),
}


@pytest.mark.parametrize("name", _REFUSED_BY_SPARK)
def test_spark_refuses_other_operators_by_a_collated_string(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    """If it did not, the key types of their schemas would be refused here."""

    def plan(read: Read) -> DataFrame:
        rows = read("events").withWatermark("at", "10 seconds")
        return _REFUSED_BY_SPARK[name](rows.withColumn("k", F.expr("s COLLATE UTF8_LCASE")))

    query = WrittenQuery(
        spark,
        tmp_path,
        inputs={"events": _INPUT},
        plan=plan,
        output_mode="append" if name == "sessions" else "update",
        once=True,
    )
    with (
        settings(spark, {**ROCKSDB_CHANGELOGS, **_FEW}),
        pytest.raises(StreamingQueryException, match="BINARY_INEQUALITY"),
    ):
        query.feed(_ROWS)
