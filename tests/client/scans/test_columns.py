"""Scans as Arrow tables and pandas frames."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest
from tests.client.asking import client_of

from queryable_state.client import (
    InvalidRequestError,
    LimitExceededError,
    Types,
    UnknownStateError,
)
from queryable_state.client.blocking import QueryableStateClient as BlockingClient
from queryable_state.server.config.limits import Limits
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


async def test_keys_and_values_are_columns(client: QueryableStateClient) -> None:
    scan = client.scan("sensors", "last")
    table = await scan.to_arrow()
    assert table.schema == pa.schema([("key", pa.string()), ("value", pa.float64())])
    expected = {f"sensor_{number}": float(number) for number in range(100)}
    assert dict(zip(*table.to_pydict().values(), strict=True)) == expected
    assert scan.complete
    assert scan.info is not None
    assert scan.info.version == 1


async def test_lists_maps_and_aggregates_have_their_types(client: QueryableStateClient) -> None:
    seen = await client.scan("sensors", "seen").to_arrow()
    assert seen.schema.field("value").type == pa.list_(pa.string())
    assert seen.to_pylist() == [{"key": "sensor_1", "value": ["a", "b"]}]
    counts = await client.scan("sensors", "counts").to_pandas()
    assert counts.to_dict("records") == [{"key": "sensor_1", "value": {"x": 1, "y": 2}}]
    for name, value in (("maximum", 99), ("mean", 0.5)):
        frame = await client.scan("sensors", name).to_pandas()
        assert frame.to_dict("records") == [{"key": "sensor_1", "value": value}]


async def test_a_scan_without_keys_has_typed_columns(client: QueryableStateClient) -> None:
    table = await client.scan("sensors", "last", prefix="nobody").to_arrow()
    assert (table.num_rows, table.schema.names) == (0, ["key", "value"])
    frame = await client.scan("sensors", "last", prefix="nobody").to_pandas()
    assert frame["value"].dtype == "float64"
    keys = await client.scan("sensors", "last", keys_only=True, prefix="sensor_1").to_pandas()
    assert list(keys.columns) == ["key"]
    assert len(keys) == 11


async def test_batches_follow_the_pages(client: QueryableStateClient) -> None:
    """The rest of a scan, of which some pages are read, and not more than a page at a time."""
    scan = client.scan("sensors", "last")
    first = await anext(aiter(scan))
    rows = [row async for batch in scan.arrow_batches() for row in batch.to_pylist()]
    assert len(rows) == 99
    assert first[0] not in {row["key"] for row in rows}
    paged = client.scan("sensors", "last", limit=10)
    batches = [batch async for batch in paged.arrow_batches()]
    assert sum(batch.num_rows for batch in batches) == 10
    assert paged.page_token


ROW = "struct<at:timestamp,key:string,price:decimal(10,2),days:array<date>>"


@pytest.fixture
async def rows(cluster: InProcessCluster) -> InProcessJob:
    """A job whose keys and values have fields."""
    job = cluster.job(
        "rows",
        declare("readings", "struct<country:string,number:int>", ROW),
        declare("huge", "string", "bigint"),
        declare("big", "string", Types.BIG_INT().simple_string()),
    )
    values = {
        ("at", 1): (NOON, "x", Decimal("1.50"), [date(2024, 1, 1)]),
        ("be", 2): (NOON, None, None, None),
    }
    await job.run(0, {"readings": values, "huge": {"a": 2**62}, "big": {"a": 10**30}})
    return job


async def test_fields_are_columns_of_their_own(
    cluster: InProcessCluster, rows: InProcessJob
) -> None:
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        table = await client.scan("rows", "readings").to_arrow()
        assert table.schema == pa.schema(
            [
                ("key_country", pa.string()),
                ("key_number", pa.int32()),
                ("at", pa.timestamp("us", tz="UTC")),
                ("key", pa.string()),
                ("price", pa.decimal128(10, 2)),
                ("days", pa.list_(pa.date32())),
            ]
        )
        found = {row["key_number"]: list(row.values())[2:] for row in table.to_pylist()}
        assert found == {
            1: [NOON, "x", Decimal("1.50"), [date(2024, 1, 1)]],
            2: [NOON, None, None, None],
        }
        frame = await client.scan("rows", "readings", prefix=("at",)).to_pandas()
        assert frame["at"].tolist() == [pd.Timestamp(NOON)]
        huge = await client.scan("rows", "huge").to_arrow()
        typed = huge.to_pandas(types_mapper=pd.ArrowDtype).set_index("key")["value"]
        assert typed["a"] == 2**62
        big = await client.scan("rows", "big").to_arrow()
        assert big.to_pylist() == [{"key": "a", "value": Decimal(10**30)}]


async def test_what_reading_raises_is_raised(client: QueryableStateClient) -> None:
    with pytest.raises(UnknownStateError):
        await client.scan("sensors", "lost").to_arrow()
    with pytest.raises(InvalidRequestError):
        await client.scan("sensors", "last", limit=0).to_pandas()


async def test_a_state_too_large_for_an_answer_is_no_row(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, servers=1, limits=Limits(prefix_records=6)) as cluster:
        job = cluster.job(
            "maps",
            declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="int"),
        )
        await job.run(0, {"counts": {"key": dict.fromkeys(range(7), 1)}})
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            with pytest.raises(LimitExceededError):
                await client.scan("maps", "counts").to_arrow()


async def test_threads_have_the_same_tables(cluster: InProcessCluster, job: InProcessJob) -> None:
    def use() -> None:
        host, _, port = cluster.servers[0].addresses.proxy.rpartition(":")
        with BlockingClient(host, int(port)) as client:
            assert client.scan("sensors", "last").to_arrow().num_rows == 100
            scan = client.scan("sensors", "last")
            key, _ = next(scan)
            frame = scan.to_pandas()
            assert len(frame) == 99
            assert key not in set(frame["key"])
            batches = client.scan("sensors", "last", prefix="sensor_1").arrow_batches()
            assert sum(batch.num_rows for batch in batches) == 11

    await asyncio.get_running_loop().run_in_executor(None, use)


def test_a_missing_extra_is_named_before_a_request() -> None:
    """Nothing listens on the port: the error comes first."""
    code = """
import sys
sys.modules[sys.argv[1]] = None
from queryable_state.client.blocking import QueryableStateClient
with QueryableStateClient("127.0.0.1", 1) as client:
    getattr(client.scan(None, "last"), sys.argv[2])()
"""
    for package, method, extra in (
        ("pyarrow", "to_arrow", "arrow"),
        ("pandas", "to_pandas", "pandas"),
    ):
        refused = subprocess.run(
            [sys.executable, "-c", code, package, method], capture_output=True, text=True
        )
        last = refused.stderr.strip().splitlines()[-1]
        assert last.startswith("ModuleNotFoundError:")
        assert last.endswith(f"pip install 'spark-queryable-state[{extra}]'")
