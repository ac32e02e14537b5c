"""A query whose keys Spark places by a part of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.native_state.programs.fixture import HDFS, ROCKSDB_CHANGELOGS
from tests.native_state.programs.written_query import WrittenQuery, settings
from tests.native_state.server.conftest import client_of, everything, keys_of, serving
from tests.native_state.server.shared_servers import two_servers

from queryable_state.wire.errors import CorruptDataError, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from queryable_state.server.native_state.server.native_server import NativeServer

__all__ = ["serving"]

_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"


def _by_part(read: Callable[[str], DataFrame]) -> DataFrame:
    return read("events").repartition("a").groupBy("a", "b").count()


@pytest.mark.parametrize("stored", [ROCKSDB_CHANGELOGS, HDFS], ids=["rocksdb", "hdfs"])
async def test_every_key_is_found_wherever_spark_put_it(
    stored: Mapping[str, str],
    spark: SparkSession,
    tmp_path: Path,
    serving: Callable[..., NativeServer],
) -> None:
    query = WrittenQuery(
        spark, tmp_path, inputs={"events": "a STRING, b INT"}, plan=_by_part, once=True
    )
    with settings(spark, {**stored, _STRICT: "false", "spark.sql.shuffle.partitions": "4"}):
        for batch in range(3):
            query.feed([{"a": f"a{n % 7}", "b": n + batch} for n in range(60)])
    async with serving(query.checkpoint) as server, client_of(server) as client:
        whole, keys = await everything(client), await keys_of(client)
        assert len(whole) > 60
        found = await client.get_kv_states("query", "aggregation", keys)
        assert [each and each.value() for each in found] == list(whole.values())
        for key in keys[:5]:
            one = await client.get_kv_state("query", "aggregation", key)
            assert one.value() == whole[str(key)]
        with pytest.raises(UnknownKeyOrNamespaceError):
            await client.get_kv_state("query", "aggregation", ("a0", 10_000))
    async with two_servers(serving, query.checkpoint, partitions=4) as servers:
        for server in servers:
            async with client_of(server) as client:
                found = await client.get_kv_states("query", "aggregation", keys)
                assert [each and each.value() for each in found] == list(whole.values())
    # Their hash names other partitions.
    for path in (query.checkpoint / "offsets").glob("[0-9]*"):
        path.write_text(path.read_text().replace('Distribution":"false"', 'Distribution":"true"'))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CorruptDataError, match="its keys belong to partition"):
        await serving(query.checkpoint).__aenter__()
