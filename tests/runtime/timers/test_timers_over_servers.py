"""Timers kept by real state servers: pages, restarts, rescaling and the next timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.timers.test_on_timer import EVENT, FIRED, PROCESSING, Scripted

from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queryable_state.streaming.testing.local_cluster import ClusterQuery


@pytest.fixture(scope="module", params=["heap", "rocksdb"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), servers=2, backend=request.param) as made:
        yield made


def _harness(owner: ClusterQuery, *, parallelism: int = 2) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        Scripted(),
        "key STRING, call STRING, at BIGINT",
        key_by="key",
        output_type=FIRED,
        parallelism=parallelism,
        owner=owner,
    )


def _fired(outputs: list[Any]) -> list[tuple[str, str, int]]:
    return [tuple(output[:3]) for output in outputs]


def test_timers_fire_by_both_clocks_and_fire_once(cluster: LocalCluster) -> None:
    harness = _harness(cluster.start_query("clocks"))
    harness.process([("a", EVENT, 10), ("a", PROCESSING, 2_000), ("a", EVENT, 5)])
    harness.process([("a", "delete_event", 5)])
    harness.watermark_ms = 10
    assert _fired(harness.set_processing_time(2_000)) == [
        ("a", "PROCESSING_TIME", 2_000),
        ("a", "EVENT_TIME", 10),
    ]
    assert harness.process_watermark(100) == []


def test_more_timers_than_a_page_has_fire_in_order(cluster: LocalCluster) -> None:
    """A state server sends at most 4096 timers at once."""
    harness = _harness(cluster.start_query("pages"), parallelism=1)
    at = [76 - number for number in range(9_001)]
    harness.process([(f"key {number % 7}", EVENT, time) for number, time in enumerate(at)])
    harness.watermark_ms = 76
    expected = sorted(at)
    assert [row[2] for row in _fired(harness.run([]))] == expected
    assert [row[2] for row in _fired(harness.process([]))] == expected
    assert harness.process([]) == []


def test_a_timer_fires_those_that_it_registers_in_the_same_batch(cluster: LocalCluster) -> None:
    harness = _harness(cluster.start_query("chained"))
    harness.process([("a", EVENT, 77)])
    assert [row[2] for row in _fired(harness.process_watermark(79))] == [77, 78, 79]
    assert [row[2] for row in _fired(harness.process_watermark(80))] == [80]


def test_timers_move_with_their_keys_to_another_parallelism(cluster: LocalCluster) -> None:
    query = cluster.start_query("rescaled", durable=True)
    harness = _harness(query, parallelism=3)
    keys = [f"key {number}" for number in range(20)]
    harness.process([(key, EVENT, 10) for key in keys])
    harness.process([(keys[0], "delete_event", 10)])
    harness.rescale(2)
    assert sorted(row[0] for row in _fired(harness.process_watermark(10))) == sorted(keys[1:])


def test_timers_survive_the_loss_of_their_server(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, servers=2) as cluster:
        query = cluster.start_query("lost", durable=True)
        harness = _harness(query)
        keys = [f"key {number}" for number in range(20)]
        harness.process([(key, EVENT, 10) for key in keys])
        cluster.stop_server(cluster.servers[1])
        query.restart()
        assert sorted(row[0] for row in _fired(harness.process_watermark(10))) == sorted(keys)
