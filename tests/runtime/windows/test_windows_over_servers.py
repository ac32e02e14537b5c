"""Windows kept by real state servers, of both backends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.windows.window_model import FixedWindows, Sessions
from tests.runtime.windows.windowed import RESULT, SESSIONS, Summed, harness

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
