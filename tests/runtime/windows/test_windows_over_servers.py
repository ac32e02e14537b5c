"""Windows kept by real state servers, of both backends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.windows.window_model import FixedWindows, Sessions
from tests.runtime.windows.windowed import RESULT, SESSIONS, Summed, harness

from queryable_state.client import TimeWindow, UnknownKeyOrNamespaceError
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import SlidingEventTimeWindows, Time
from queryable_state.streaming.testing.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))


@pytest.fixture(scope="module", params=["heap", "rocksdb"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), servers=2, backend=request.param) as made:
        yield made


@pytest.mark.parametrize("kind", ["process", "sum"])
@pytest.mark.parametrize("is_session", [False, True])
def test_windows_move_with_their_keys_and_survive_restarts(
    cluster: LocalCluster, kind: str, is_session: bool
) -> None:
    model: Any = Sessions(lambda _: 10, 3) if is_session else FixedWindows(10, 5, 0, 3)
    query = cluster.start_query(f"windows {kind} {is_session}", durable=True)

    def operator(windowed: Any) -> Any:
        late = windowed.allowed_lateness(3)
        return late.process(Summed(), RESULT) if kind == "process" else late.sum("v")

    windows = harness(SESSIONS if is_session else SLIDING, operator, parallelism=3, owner=query)
    draw = random.Random(7)
    for batch in range(8):
        rows = [
            (f"key {draw.randrange(20)}", batch * 5 + draw.randrange(20), draw.randrange(1, 9))
            for _ in range(40)
        ]
        windows.watermark_ms = batch * 5 + 1
        expected = [(key, value) for key, _, _, value in model.batch(windows.watermark_ms, rows)]
        assert sorted((each.k, each.v) for each in windows.process(rows)) == sorted(expected)
        if batch == 3:
            windows.rescale(2)
        if batch == 5:
            query.restart()
    expected = [(key, value) for key, _, _, value in model.batch(10_000, [])]
    assert sorted((each.k, each.v) for each in windows.process_watermark(10_000)) == sorted(
        expected
    )
    assert windows.process_watermark(20_000) == []


def test_sessions_are_asked_for_by_their_bounds(cluster: LocalCluster) -> None:
    sessions = harness(
        SESSIONS,
        lambda windowed: windowed.reduce(_greater, queryable_name="greatest"),
        parallelism=2,
        owner=cluster.start_query("bounds"),
    )
    host, _, port = cluster.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:

        def shown(*bounds: int) -> dict[tuple[int, int], int]:
            found = client.get_windows("bounds", "greatest", "a", *bounds)
            return {(window.start, window.end): each.get().v for window, each in found.items()}

        sessions.process([("a", 10, 1), ("a", 8, 2), ("a", 12, 1), ("a", 30, 3), ("a", 36, 5)])
        assert shown() == {(8, 22): 2, (30, 46): 5}
        assert shown(8, 9) == {(8, 22): 2}
        assert shown(9) == {(30, 46): 5}
        sessions.process([("a", 21, 4)])
        assert shown() == {(8, 46): 5}
        assert shown(9) == {}
        merged = client.get_kv_state("bounds", "greatest", "a", window=TimeWindow(8, 46))
        assert merged.get().v == 5
        for window in (TimeWindow(8, 22), TimeWindow(10, 20), TimeWindow(30, 46)):
            with pytest.raises(UnknownKeyOrNamespaceError):
                client.get_kv_state("bounds", "greatest", "a", window=window)
    assert [each.v for each in sessions.process_watermark(100)] == [5]


def _greater(one: Any, other: Any) -> Any:
    return one if one.v >= other.v else other
