"""What clients read of a served checkpoint equals the answer of Spark's own state reader."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.answers import spark_fixture
from tests.native_state.answers.client_records import (
    ANY_PARTITION,
    looked_up_records,
    records_of,
    scanned_records,
)
from tests.native_state.answers.expected_records import answer_name, expected_records
from tests.native_state.answers.records import differences

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.native_state.server.native_server import NativeServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.native_state.answers.records import Record
    from tests.native_state.answers.spark_fixture import SparkFixture

    from queryable_state.server.native_state.operators.state_layout import StateDefinition

NAMES = [
    "aggregation-rocksdb",
    "aggregation-v1",
    "chained",
    "dedup-within-watermark",
    "groups-event-time",
    "join-left-outer-v2",
    "join-left-outer-v4",
    "key-types",
    "processor-pandas-ttl",
    "processor-rows-event-timers",
    "sessions-hdfs",
    "spark-4.0-join-inner-v1",
    "value-types",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lazy", [False, True])
async def test_scans_and_look_ups_equal_sparks(name: str, lazy: bool, tmp_path: Path) -> None:
    """Every key, by a scan and by a look-up that the client sends to the key's partition."""
    fixture = spark_fixture.unpacked(name, tmp_path)
    async with _served(fixture, tmp_path, lazy=lazy) as server:
        time_ms = server.served.facts.timestamp_ms
        await asyncio.to_thread(_compare, server.address, fixture, _states(server), time_ms)


@pytest.mark.parametrize("page", [None, 3])
@pytest.mark.parametrize("name", ["aggregation-rocksdb", "sessions-hdfs", "processor-rows-ttl"])
async def test_scans_of_a_part_have_all_its_keys(
    name: str, page: int | None, tmp_path: Path
) -> None:
    """By prefix and by range, of values, windows, lists and maps under string keys."""
    fixture = spark_fixture.unpacked(name, tmp_path)
    async with _served(fixture, tmp_path) as server:
        await asyncio.to_thread(_compare_parts, server.address, _states(server), page)


@asynccontextmanager
async def _served(
    fixture: SparkFixture, folder: Path, *, lazy: bool = False
) -> AsyncIterator[NativeServer]:
    (folder / "served").mkdir()
    settings = CheckpointServerSettings(
        spark_checkpoint=fixture.checkpoint,
        lazy=lazy,
        name="query",
        directory=str(folder / "served"),
        ports="0",
        frame_ports="0",
        web="off",
    )
    async with NativeServer(settings) as server:
        yield server


def _states(server: NativeServer) -> list[StateDefinition]:
    return [
        layout.definition
        for operator in server.served.states.operators
        for layout in operator.layouts.values()
    ]


def _compare_parts(address: str, states: list[StateDefinition], page: int | None) -> None:
    with QueryableStateClient(*host_and_port(address)) as client:
        for state in states:
            records, _ = scanned_records(client, "query", state)
            keys = sorted({record.key[0] for record in records} - {None})
            if not keys:
                continue
            for text in (keys[0], keys[-1], keys[len(keys) // 2][:-1], "key-1", "k", ""):
                expected = [each for each in records if (each.key[0] or "").startswith(text)]
                if not text:
                    expected = [each for each in records if each.key[0] is not None]
                found = _in_pages(client, state, page, prefix=text)
                assert differences(found, expected) == []
            low, high = keys[len(keys) // 3], keys[len(keys) // 2]
            expected = [each for each in records if each.key[0] and low <= each.key[0] < high]
            assert expected
            assert differences(_in_pages(client, state, page, start=low, end=high), expected) == []


def _in_pages(
    client: QueryableStateClient, state: StateDefinition, page: int | None, **part: Any
) -> list[Record]:
    """The records of a part, each page of it by a scan of its own."""
    found: list[Record] = []
    token = b""
    while True:
        with client.scan(
            "query", state.queryable_name, limit=page, page_token=token, **part
        ) as scan:
            for key, value in scan:
                assert value is not None
                found += records_of(state, key, value)
            token = scan.page_token
        if not token:
            return found


def _compare(
    address: str, fixture: SparkFixture, states: list[StateDefinition], time_ms: int
) -> None:
    newest = fixture.batches()[-1]
    with QueryableStateClient(*host_and_port(address)) as client:
        for state in states:
            rows = fixture.answers(answer_name(state), newest)
            expected = [
                record._replace(partition=ANY_PARTITION)
                for record in expected_records(rows, state, time_ms)
            ]
            scanned, batch = scanned_records(client, "query", state)
            assert batch == newest
            assert differences(scanned, expected) == []
            assert differences(looked_up_records(client, "query", state), expected) == []
