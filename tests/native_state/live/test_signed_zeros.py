"""Keys that differ by the sign of a zero, which Spark keeps apart in some operators."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from tests.native_state.programs.fixture import HDFS, ROCKSDB_CHANGELOGS
from tests.native_state.programs.written_query import WrittenQuery, settings
from tests.native_state.server.conftest import client_of, keys_of, serving, until_batch

from queryable_state.wire.errors import InvalidRequestError, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from queryable_state.server.native_state.server.native_server import NativeServer

__all__ = ["serving"]

_INPUT = {"events": "a STRING, x DOUBLE"}
_SEVERAL = r"several ones for Spark, which keeps 0\.0 and -0\.0 apart"


def _events(read: Callable[[str], DataFrame]) -> DataFrame:
    """Values of -1 become negative zeros, which JSON does not have."""
    return read("events").selectExpr("a", "IF(x = -1, double('-0.0'), x) AS x")


def _grouped(read: Callable[[str], DataFrame]) -> DataFrame:
    def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        (before,) = state.get if state.exists else (0,)
        state.update((before + sum(map(len, frames)),))
        yield pd.DataFrame({"a": [key[0]]})

    grouped = _events(read).groupBy("a", "x")
    return grouped.applyInPandasWithState(
        count, "a STRING", "n BIGINT", "update", GroupStateTimeout.NoTimeout
    )


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(ROCKSDB_CHANGELOGS, id="rocksdb"),
        pytest.param(HDFS, id="hdfs", marks=pytest.mark.slow),
    ],
)
async def test_a_key_with_a_negative_zero_is_found_unless_it_is_two_keys(
    stored: Mapping[str, str],
    spark: SparkSession,
    tmp_path: Path,
    serving: Callable[..., NativeServer],
) -> None:
    query = WrittenQuery(spark, tmp_path, inputs=_INPUT, plan=_grouped, once=True)
    rows = [{"a": f"a{n}", "x": (-1.0, 0.0, 1.5)[n % 3]} for n in range(9)]
    with settings(spark, stored):
        query.feed(rows)
    async with serving(query.checkpoint) as server, client_of(server) as client:
        for row in rows:
            for zero in (0.0, -0.0):
                found = await client.get_kv_states("query", "groups", [(row["a"], zero)])
                assert (found[0] is not None) == (row["x"] != 1.5)
        async with client.scan("query", "groups", limit=4) as scan:
            keys = [str(key) async for key, _ in scan]
            token = scan.page_token
        async with client.scan("query", "groups", page_token=token) as scan:
            keys += [str(key) async for key, _ in scan]
        assert len(keys) == len(set(keys)) == 9
    async with serving(query.checkpoint, follow=True) as server, client_of(server) as client:
        with settings(spark, stored):
            await asyncio.to_thread(query.feed, [{"a": "a0", "x": 0.0}, {"a": "a3", "x": -1.0}])
        await until_batch(server, 1)
        for zero in (0.0, -0.0):
            with pytest.raises(InvalidRequestError, match=_SEVERAL):
                await client.get_kv_state("query", "groups", ("a0", zero))
            assert (await client.get_kv_state("query", "groups", ("a3", zero))).value().n == 2
        with pytest.raises(InvalidRequestError, match=_SEVERAL):
            await keys_of(client, "groups")
        with pytest.raises(UnknownKeyOrNamespaceError):
            await client.get_kv_state("query", "groups", ("a2", 0.0))


@pytest.mark.slow
async def test_an_aggregation_takes_both_zeros_for_one_key(
    spark: SparkSession, tmp_path: Path, serving: Callable[..., NativeServer]
) -> None:
    query = WrittenQuery(
        spark,
        tmp_path,
        inputs=_INPUT,
        plan=lambda read: _events(read).groupBy("a", "x").count(),
        once=True,
    )
    with settings(spark, ROCKSDB_CHANGELOGS):
        query.feed([{"a": "a", "x": zero} for zero in (-1.0, 0.0)])
    async with serving(query.checkpoint) as server, client_of(server) as client:
        for zero in (0.0, -0.0):
            found = await client.get_kv_state("query", "aggregation", ("a", zero))
            assert found.value().count == 2


class _ByValue(StatefulProcessor):
    """A map with an entry for each value."""

    def init(self, handle: Any) -> None:
        self._entries = handle.getMapState("entries", "x DOUBLE", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            for value in frame["x"]:
                self._entries.updateValue((float(value),), (7,))
        yield pd.DataFrame({"a": [key[0]]})

    def close(self) -> None:
        pass


def _mapped(read: Callable[[str], DataFrame]) -> DataFrame:
    grouped = _events(read).groupBy("a")
    return grouped.transformWithStateInPandas(_ByValue(), "a STRING", "Update", "None")


async def test_a_map_with_entries_for_both_zeros_is_refused(
    spark: SparkSession, tmp_path: Path, serving: Callable[..., NativeServer]
) -> None:
    query = WrittenQuery(spark, tmp_path, inputs=_INPUT, plan=_mapped, once=True)
    rows = (("one", -1.0), ("one", 1.0), ("two", 0.0), ("two", -1.0))
    with settings(spark, ROCKSDB_CHANGELOGS):
        query.feed([{"a": a, "x": x} for a, x in rows])
    async with serving(query.checkpoint) as server, client_of(server) as client:
        one: Any = await client.get_kv_state("query", "entries", "one")
        assert sorted((key, value.n) for key, value in one.items()) == [(0.0, 7), (1.0, 7)]
        for zero in (0.0, -0.0):
            entry: Any = await client.get_map_entry("query", "entries", "one", zero)
            assert entry.value().n == 7
            with pytest.raises(InvalidRequestError, match=_SEVERAL):
                await client.get_map_entry("query", "entries", "two", zero)
        with pytest.raises(InvalidRequestError, match=_SEVERAL):
            await client.get_kv_state("query", "entries", "two")
