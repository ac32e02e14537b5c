"""The time at which a value of Spark's state expires is the one that Spark's state reader shows."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.answers import spark_fixture

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.native_state.server.native_server import NativeServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.native_state.answers.spark_fixture import SparkFixture

Row = dict[str, Any]

NAMES = [
    "processor-avro-ttl",
    "processor-pandas-ttl",
    "processor-rows-ttl",
    "spark-4.0-processor-pandas-ttl",
]


@pytest.mark.parametrize("name", NAMES)
async def test_values_expire_when_spark_says(name: str, tmp_path: Path) -> None:
    """Values, elements of lists and entries of maps, each at a time of its own."""
    fixture = spark_fixture.unpacked(name, tmp_path)
    async with _served(fixture, tmp_path) as server:
        await asyncio.to_thread(_compare, server, fixture)


@asynccontextmanager
async def _served(fixture: SparkFixture, folder: Path) -> AsyncIterator[NativeServer]:
    settings = CheckpointServerSettings(
        spark_checkpoint=fixture.checkpoint,
        name="query",
        directory=str(folder),
        ports="0",
        frame_ports="0",
        web="off",
    )
    async with NativeServer(settings) as server:
        yield server


def _compare(server: NativeServer, fixture: SparkFixture) -> None:
    batch_time_ms = server.served.facts.timestamp_ms
    newest = fixture.batches()[-1]

    def live(state: str) -> list[Row]:
        rows = fixture.answers(f"0.{state}", newest)
        found = [row for row in rows if _stored(row)[1] > batch_time_ms]
        assert found
        return found

    with QueryableStateClient(*host_and_port(server.address)) as client:
        for row in live("count"):
            state = client.get_kv_state("query", "count", _key(row))
            assert state.expires_at_ms == row["value"][1]
            info = state.info
            assert (info.ttl_ms, info.ttl_per_value) == (0, True)
            assert state.remaining_ms == max(0, row["value"][1] - info.read_time_ms)
        for row in live("by_value"):
            entry = client.get_map_entry("query", "by_value", _key(row), tuple(row["user_map_key"]))
            assert entry.expires_at_ms == row["user_map_value"][1]
        # Answers are sorted: the order of a list's elements is not in them.
        elements: dict[Any, list[tuple[Any, int]]] = defaultdict(list)
        for row in live("values"):
            (value,), expiry_ms = row["list_element"]
            elements[_key(row)].append((value, expiry_ms))
        for key, expected in elements.items():
            whole = client.get_kv_state("query", "values", key)
            assert whole.expires_at_ms == max(expiry_ms for _, expiry_ms in expected)
            slices = [
                client.get_list_slice("query", "values", key, position, 1)
                for position in range(len(whole.get()))
            ]
            found = [(each.get()[0], each.expires_at_ms) for each in slices]
            assert sorted(found) == sorted(expected)
        listed = {each.state_name: each for each in client.list_states("query")}
        assert listed["count"].ttl_per_value
        assert listed["count"].ttl_ms == 0


def _stored(row: Row) -> list[Any]:
    """The value of a row of Spark's reader and the time of its expiry."""
    names = ("value", "list_element", "user_map_value")
    stored: list[Any] = next(row[name] for name in names if name in row)
    return stored


def _key(row: Row) -> Any:
    return tuple(row["key"]) if len(row["key"]) > 1 else row["key"][0]
