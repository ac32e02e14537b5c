"""Tables and JSON of the query benchmark."""

from __future__ import annotations

import json

from benchmarks.closed_loop import LoopSample
from benchmarks.open_loop import OpenLoopSample
from benchmarks.query.clients.load_generator import Operation
from benchmarks.query.measuring import Samples
from benchmarks.query.report import report, to_json

NAMES = ["ours", "Flink"]


def loop(per_second: float) -> LoopSample:
    return LoopSample(
        per_second=per_second, p50_us=100, p99_us=200, p999_us=300, answers=9, cpu_us=1.5
    )


def some_samples() -> Samples:
    samples = Samples()
    hits = samples.closed[Operation.HITS]
    hits["ours", 1] = [loop(2_000), loop(4_000), loop(9_000)]
    hits["Flink", 1] = [loop(2_000)]
    hits["ours", 64] = [loop(90_000)]
    hits["Flink", 64] = [loop(30_000)]
    samples.closed[Operation.MISSES]["ours", 1] = [loop(5_000)]
    samples.open["ours"] = [OpenLoopSample(rate=4_000, p50_us=1, p99_us=2, answers=3, kept_up=True)]
    samples.highest_rate["ours"] = [50_000.0]
    samples.highest_rate["redis-py, 4 connections"] = [8_000.0]
    samples.highest_rate["redis-py, 16 connections"] = [10_000.0]
    return samples


def cells(text: str, title: str) -> list[list[str]]:
    """The rows of the table below a title."""
    lines = text.split(title)[1].strip().split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_rates_are_medians_and_ratios_are_of_medians() -> None:
    text = report(some_samples(), NAMES, [], ["Flink", "valkey-glide"])
    assert cells(text, "single keys:")[0] == ["ours", "4.00k", "90.0k"]
    assert cells(text, "Lowest to highest round:")[0][1] == "2.00k-9.00k"
    assert cells(text, "Keys a second against Flink, single keys:") == [["ours", "2.00", "3.00"]]
    assert cells(text, "p99.9 in us:")[0] == ["ours", "300", "300"]
    assert "valkey-glide" not in text


def test_a_peer_without_answers_gives_no_ratio() -> None:
    samples = some_samples()
    samples.closed[Operation.HITS]["Flink", 64] = [loop(0)]
    text = report(samples, NAMES, [], ["Flink"])
    assert cells(text, "Keys a second against Flink, single keys:") == [["ours", "2.00", "-"]]


def test_misses_are_compared_with_hits_of_peers_that_have_both() -> None:
    text = report(some_samples(), NAMES, [], [])
    assert cells(text, "Misses a second against hits a second:") == [["ours", "1.25"]]


def test_open_loops_are_compared_with_the_best_redis_pool() -> None:
    text = report(
        some_samples(), [], ["ours", "redis-py, 4 connections", "redis-py, 16 connections"], []
    )
    found = cells(text, "highest rate held at a p99 under 5 ms:")
    assert found[0] == ["ours", "50.0k/s", "50.0k-50.0k", "5.0"]


def test_the_json_has_exactly_the_loops_of_the_run() -> None:
    figures = json.loads(json.dumps(to_json(some_samples())))
    assert len(figures["loops"]) == 7
    assert figures["loops"][0] == {
        "peer": "ours",
        "operation": "hits",
        "in_flight": 1,
        "per_second": 2_000,
        "p50_us": 100,
        "p99_us": 200,
        "p999_us": 300,
        "answers": 9,
        "cpu_us": 1.5,
    }
    assert figures["highest_rates"]["ours"] == [50_000.0]
