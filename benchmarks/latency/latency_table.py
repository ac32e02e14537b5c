"""The table of a latency benchmark."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.figures import percentile, table


class Latency(NamedTuple):
    """Measured times in milliseconds."""

    name: str
    goal: str
    """Of the p50; empty: none."""
    values: list[float]


def latency_table(latencies: list[Latency]) -> str:
    """p50, p95 and the goal of each."""
    rows = []
    for name, goal, values in latencies:
        ordered = sorted(round(value * 1000) for value in values)
        shares = [percentile(ordered, share) / 1000 for share in (0.5, 0.95)]
        rows.append([name, *(f"{value:.1f}" for value in shares), goal])
    return table(["ms", "p50", "p95", "goal of p50"], rows)
