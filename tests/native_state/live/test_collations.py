"""Joins on strings with a collation, whose keys Spark stores as collation keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.native_state.programs.fixture import ROCKSDB_CHANGELOGS
from tests.native_state.programs.written_query import WrittenQuery, settings
from tests.native_state.server.conftest import client_of, keys_of, serving

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from queryable_state.server.native_state.server.native_server import NativeServer

__all__ = ["serving"]


def _joined(read: Callable[[str], DataFrame], key: str) -> DataFrame:
    """Both sides have a collated column and a binary one; they are joined by `key`."""
    sides = [
        read(side).selectExpr(
            *(
                f"{expression} AS {prefix}_{name}"
                for name, expression in (
                    ("word", "collate(word, 'UTF8_LCASE')"),
                    ("pair", "struct(collate(word, 'UTF8_LCASE') AS word, n)"),
                    ("plain", "word"),
                    ("bytes", "encode(word, 'UTF-8')"),
                )
            )
        )
        for side, prefix in (("left", "l"), ("right", "r"))
    ]
    return sides[0].join(sides[1], sides[0][f"l_{key}"] == sides[1][f"r_{key}"])


@pytest.mark.parametrize(("key", "version"), [("word", "2"), ("pair", "3"), ("bytes", "2")])
async def test_keys_that_may_be_collation_keys_are_refused_by_name(
    key: str,
    version: str,
    spark: SparkSession,
    tmp_path: Path,
    serving: Callable[..., NativeServer],
) -> None:
    """A binary key beside a collated column may be either, so it is refused, too."""
    conf = {**ROCKSDB_CHANGELOGS, "spark.sql.streaming.join.stateFormatVersion": version}
    query = _written(spark, tmp_path, key, conf)
    with pytest.raises(QueryableStateError, match="may be Spark's collation keys") as refused:
        await serving(query.checkpoint).__aenter__()
    assert "collate(name, 'UTF8_BINARY')" in str(refused.value)


async def test_a_plain_key_beside_a_collated_column_is_served(
    spark: SparkSession, tmp_path: Path, serving: Callable[..., NativeServer]
) -> None:
    query = _written(spark, tmp_path, "plain", ROCKSDB_CHANGELOGS)
    async with serving(query.checkpoint) as server, client_of(server) as client:
        keys = await keys_of(client, "left")
        found = await client.get_kv_states("query", "left", keys)
        assert sorted(keys) == ["Lamp", "Oven", "lamp"]
        assert [each and each.get()[0].l_plain for each in found] == keys


def _written(spark: SparkSession, folder: Path, key: str, conf: dict[str, str]) -> WrittenQuery:
    query = WrittenQuery(
        spark,
        folder,
        inputs=dict.fromkeys(("left", "right"), "word STRING, n INT"),
        plan=lambda read: _joined(read, key),
        output_mode="append",
        once=True,
    )
    rows = [{"word": word, "n": 1} for word in ("Lamp", "lamp", "Oven")]
    with settings(spark, conf):
        query.feed(left=rows, right=rows[:1])
    return query
