"""What clients read of a served checkpoint equals the answer of Spark's own state reader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.native_state.answers import spark_fixture
from tests.native_state.answers.client_records import (
    ANY_PARTITION,
    looked_up_records,
    scanned_records,
)
from tests.native_state.answers.expected_records import answer_name, expected_records
from tests.native_state.answers.records import differences

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.native_state.server.native_server import NativeServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from pathlib import Path

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
    (tmp_path / "served").mkdir()
    settings = CheckpointServerSettings(
        spark_checkpoint=fixture.checkpoint,
        lazy=lazy,
        name="query",
        directory=str(tmp_path / "served"),
        ports="0",
        frame_ports="0",
        web="off",
    )
    async with NativeServer(settings) as server:
        states = [
            layout.definition
            for operator in server.served.states.operators
            for layout in operator.layouts.values()
        ]
        time_ms = server.served.facts.timestamp_ms
        await asyncio.to_thread(_compare, server.address, fixture, states, time_ms)


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
