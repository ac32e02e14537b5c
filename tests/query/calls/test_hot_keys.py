"""Hot keys of states, from owners and from proxies."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.client import (
    InvalidRequestError,
    KeySide,
    QueryableStateClient,
    UnknownStateError,
)
from queryable_state.server.coordinator_client import CoordinatorClient
from queryable_state.server.query.proxy.owner_calls import OwnerCalls
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
        # A part of the keys is sampled if the machine is fast.
        assert total.total == pytest.approx(200, rel=0.4)
        assert asked[0].share == pytest.approx(0.5, abs=0.2)


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


async def test_the_hot_keys_of_a_job_with_many_states_are_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of two servers has a part of every state, and is asked once."""
    calls: Counter[str] = Counter()

    def count(of: type, method: str) -> None:
        called = getattr(of, method)

        def counted(*args: Any, **options: Any) -> Any:
            calls[method] += 1
            return called(*args, **options)

        monkeypatch.setattr(of, method, counted)

    count(OwnerCalls, "hot_keys")
    count(CoordinatorClient, "locate_state")
    count(CoordinatorClient, "list_states")
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        names = [f"state_{number}" for number in range(200)]
        job = cluster.job("wide", *(declare(name, "string", "double") for name in names))
        await job.run(0, {name: {"a": 1.0, "b": 2.0} for name in names})
        proxy = await cluster.add_proxy()
        async with QueryableStateClient(addresses=[proxy.address]) as client:
            await client.get_kv_state("wide", "state_7", "a")
            took_s = []
            for _ in range(5):
                begun_s = time.perf_counter()
                found = await client.hot_keys("wide", limit=3)
                took_s.append(time.perf_counter() - begun_s)
                assert found.complete
                assert not found.errors
                assert {total.state_name for total in found.totals} == {*names}
                written = [key for key in found.keys if key.side is KeySide.WRITE]
                assert [key.count for key in written] == [200] * 400
                assert {key.key for key in written} == {"a", "b"}
            # Names of states are known for a second: each of the owners and the proxy locates one.
            assert calls["hot_keys"] == 2 * len(took_s)
            assert calls["list_states"] <= 3 * len(took_s)
            assert calls["locate_state"] <= 3 * len(took_s) + 1
            assert min(took_s) < 1
