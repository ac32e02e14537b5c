"""The pictures of a run."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.plots.capacity import capacity
from benchmarks.plots.query import latencies, open_loop, rates
from benchmarks.plots.streaming import streaming
from benchmarks.plots.style import apart, save, short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from matplotlib.figure import Figure


def loop(peer: str, in_flight: int, per_second: float) -> dict[str, Any]:
    return {
        "peer": peer,
        "operation": "hits",
        "in_flight": in_flight,
        "per_second": per_second,
        "p99_us": 900.0,
    }


def tried(peer: str, rate: float, *, kept_up: bool) -> dict[str, Any]:
    return {"peer": peer, "rate": rate, "p99_us": rate / 10, "kept_up": kept_up}


QUERY = {
    "loops": [
        loop(peer, in_flight, 1_000.0 * in_flight)
        for peer in ("direct, RocksDB", "another peer")
        for in_flight in (1, 64, 1024)
    ],
    "open_loops": [
        tried("direct, RocksDB", 4_000.0, kept_up=True),
        tried("direct, RocksDB", 8_000.0, kept_up=False),
    ],
}
STREAMING = {
    "workloads": {
        "keys": {
            "of": {"rows": 2_000, "keys": 100},
            "variants": [
                {
                    "name": "sums",
                    "title": "ours, built-in",
                    "rows_per_second": {"median": 250_000.0},
                    "runs": [{"rows_per_second": [3e5, 2e5]}],
                }
            ],
        }
    }
}
CAPACITY = {
    "rows": [
        {"backend": backend, "keys": keys, "bytes_per_key": 100, "p50_us": 250.0}
        for backend in ("heap", "rocksdb")
        for keys in (100_000, 1_000_000)
    ]
}


@pytest.mark.parametrize(
    ("draw", "figures", "named"),
    [
        (rates, QUERY, ["direct, RocksDB", "another peer", "1024"]),
        (latencies, QUERY, ["direct, RocksDB", "another peer"]),
        (open_loop, QUERY, ["direct, RocksDB", "5 ms"]),
        (streaming, STREAMING, ["ours, built-in", "250k"]),
        (capacity, CAPACITY, ["heap", "RocksDB", "1M"]),
    ],
)
def test_the_same_figures_give_the_same_picture_with_every_name_on_it(
    tmp_path: Path,
    draw: Callable[[Mapping[str, Any]], Figure | None],
    figures: Mapping[str, Any],
    named: list[str],
) -> None:
    pictures = []
    for path in (tmp_path / "first.svg", tmp_path / "second.svg"):
        figure = draw(figures)
        assert figure is not None
        save(figure, path)
        pictures.append(path.read_text())
    assert pictures[0] == pictures[1]
    for name in named:
        assert name in pictures[0]


@pytest.mark.parametrize("draw", [rates, latencies, open_loop])
def test_a_part_that_was_not_run_gives_no_picture(
    draw: Callable[[Mapping[str, Any]], Figure | None],
) -> None:
    assert draw({"loops": [], "open_loops": []}) is None


def test_overlapping_names_are_moved_apart_in_order() -> None:
    placed = apart([0.5, 0.1, 0.52, 0.51, 0.9], 0.1)
    assert sorted(range(5), key=lambda i: placed[i]) == [1, 0, 3, 2, 4]
    assert all(above - below >= 0.1 - 1e-9 for below, above in pairwise(sorted(placed)))
    assert placed[1] == 0.1
    assert placed[4] == 0.9


def test_numbers_on_axes_are_short() -> None:
    assert [short(n) for n in (0.5, 64, 1_500, 20_000, 1e7)] == ["0.5", "64", "1.5k", "20k", "10M"]
