"""A follower beside a running query: each answer equals that of Spark's reader at its batch."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from tests.native_state.live.checked_query import CheckedQuery
from tests.native_state.programs.catalog import FIXTURES
from tests.native_state.programs.written_query import settings

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.native_state.server.native_server import NativeServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from queryable_state.server.native_state.operators.state_layout import StateDefinition

_BY_NAME = {fixture.name: fixture for fixture in FIXTURES}

DEFAULT = ["windows-changelog"]
SLOW = [
    "chained",
    "join-left-outer-v4",
    "processor-pandas-event-timers",
    "repartitioned",
    "retries-hdfs",
    "retries-ids",
    "retries-snapshots",
    "sessions",
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [*DEFAULT, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
async def test_each_answer_equals_sparks_at_its_batch(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    """While batches run, evict, fail, are retried, and the query is restarted."""
    fixture = _BY_NAME[name]
    query = CheckedQuery(
        spark,
        tmp_path,
        inputs=fixture.inputs,
        plan=fixture.plan,
        output_mode=fixture.output_mode,
        once=fixture.once,
    )
    (tmp_path / "query.json").write_text(json.dumps({"settings": dict(fixture.settings)}))
    served = NativeServer(
        CheckpointServerSettings(
            spark_checkpoint=str(query.checkpoint),
            follow=True,
            name="query",
            directory=str(tmp_path / "served"),
            ports="0",
            frame_ports="0",
            web="off",
        )
    )

    def states() -> list[StateDefinition]:
        return [
            layout.definition
            for operator in served.served.states.operators
            for layout in operator.layouts.values()
        ]

    (tmp_path / "served").mkdir()
    with settings(spark, fixture.settings):
        try:
            await asyncio.to_thread(query.start)
            feeding = asyncio.create_task(asyncio.to_thread(fixture.feed, query))
            async with served:
                with QueryableStateClient(*host_and_port(served.address)) as client:
                    query.compare_with(client, states)
                    await feeding
        finally:
            query.stop()
    assert not query.problems, "\n".join(query.problems[:40])
    assert query.compared > 1
