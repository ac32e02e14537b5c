"""Hot keys of states, from owners and from proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.client import (
    InvalidRequestError,
    KeySide,
    QueryableStateClient,
    UnknownStateError,
)
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob


def _client(cluster: InProcessCluster) -> QueryableStateClient:
    return QueryableStateClient(addresses=[cluster.servers[0].addresses.proxy])


async def test_a_key_that_is_asked_often_is_named_with_its_share(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    async with _client(cluster) as client:
        for number in range(100):
            await client.get_kv_state("sensors", "last", f"sensor_{number % 10}")
            await client.get_kv_state("sensors", "last", "sensor_77")
        found = await client.hot_keys("sensors", "last", limit=3)
        assert found.complete
        asked = [key for key in found.keys if key.side is KeySide.READ]
        assert len(asked) == 3
        assert (asked[0].key, asked[0].key_json, asked[0].state_name) == (
            "sensor_77",
            '"sensor_77"',
            "last",
        )
        [total] = [total for total in found.totals if total.side is KeySide.READ]
        assert total.total == 200
        assert asked[0].share == pytest.approx(0.5, abs=0.1)


async def test_a_key_with_many_rows_is_named_with_its_share(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Of all states of the operator, whichever of them the rows change."""
    job.rows = {"sensor_5": 900}
    await job.run(1, {"last": {f"sensor_{number}": 1.0 for number in range(100)}})
    async with _client(cluster) as client:
        found = await client.hot_keys("sensors", limit=1)
        written = [key for key in found.keys if key.side is KeySide.WRITE]
        assert [(key.state_name, key.key, key.count) for key in written] == [
            ("last", "sensor_5", 901),
            ("seen", "sensor_5", 901),
        ]
        assert {total.operator_uid for total in found.totals} == {"operator"}
        totals = {total.total for total in found.totals if total.side is KeySide.WRITE}
        assert totals == {101 + 999}
        assert written[0].share == pytest.approx(901 / 1100)


async def test_the_setting_switches_the_count_off(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, hot_keys=False) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {"a": 1.0}})
        async with _client(cluster) as client:
            await client.get_kv_state("sensors", "last", "a")
            found = await client.hot_keys("sensors", "last")
            assert [key for key in found.keys if key.side is KeySide.READ] == []
            assert all(total.is_off for total in found.totals)


async def test_invalid_questions_are_refused(cluster: InProcessCluster, job: InProcessJob) -> None:
    async with _client(cluster) as client:
        with pytest.raises(UnknownStateError, match="last, seen"):
            await client.hot_keys("sensors", "lost")
        with pytest.raises(InvalidRequestError, match="limit"):
            await client.hot_keys("sensors", "last", limit=0)
