"""Tables and JSON of `python -m benchmarks.mixed`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from benchmarks.figures import Spread, table, thousands
from benchmarks.mixed.cpu_by_part import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.closed_loop import LoopSample
    from benchmarks.mixed.measuring import Window

    Runs = Mapping[str, Sequence[Sequence[Window]]]
    """The windows of each run, by kind."""

TITLES = {"ours": "ours, queryable", "redis": "native sums to Redis, redis-py"}


def rows_of(runs: Sequence[Sequence[Window]], in_flight: int) -> Spread:
    """Rows a second of all windows with a number in flight."""
    return Spread.of([w.rows_per_second for run in runs for w in run if w.in_flight == in_flight])


def kept(runs: Sequence[Sequence[Window]], in_flight: int) -> Spread:
    """Rows a second under look-ups as a share of those without, within each run."""
    return Spread.of([rows_of([run], in_flight).median / rows_of([run], 0).median for run in runs])


def look_ups_of(
    runs: Sequence[Sequence[Window]], in_flight: int, figure: Callable[[LoopSample], float]
) -> Spread:
    """A figure of the look-ups of all windows with a number in flight."""
    return Spread.of(
        [
            figure(w.look_ups)
            for run in runs
            for w in run
            if w.in_flight == in_flight and w.look_ups is not None
        ]
    )


def report(runs: Runs) -> str:
    """Rows, look-ups and CPUs of each kind; ratios to the peer if both were run."""
    in_flight = sorted({w.in_flight for of_kind in runs.values() for run in of_kind for w in run})
    counts = [number for number in in_flight if number]
    parts = [
        "Rows a second (median, lowest to highest window), by look-ups in flight:",
        table(
            ["job", *("none" if not n else str(n) for n in in_flight)],
            [
                [TITLES[kind], *(_range(rows_of(of_kind, n)) for n in in_flight)]
                for kind, of_kind in runs.items()
            ],
        ),
        "Rows kept under look-ups (median, lowest to highest run):",
        table(
            ["job", *map(str, counts)],
            [
                [TITLES[kind], *(_shares(kept(of_kind, n)) for n in counts)]
                for kind, of_kind in runs.items()
            ],
        ),
        "Look-ups a second, p50 / p99 in us (medians; lowest to highest p99):",
        table(
            ["job", *map(str, counts)],
            [
                [TITLES[kind], *(_look_ups(of_kind, n) for n in counts)]
                for kind, of_kind in runs.items()
            ],
        ),
    ]
    if set(TITLES) <= set(runs):
        parts += ["Ours against the peer:", _ratios(runs, in_flight)]
    parts += ["CPUs kept busy, by look-ups in flight:", _cpus(runs, in_flight)]
    return "\n\n".join(parts)


def _ratios(runs: Runs, in_flight: Sequence[int]) -> str:
    def ratios(figure: Callable[[Sequence[Sequence[Window]], int], Spread]) -> list[str]:
        return [
            f"{figure(runs['ours'], n).median / figure(runs['redis'], n).median:.2f}"
            for n in in_flight
            if n
        ]

    def of_look_ups(figure: Callable[[LoopSample], float]) -> list[str]:
        return ["", *ratios(lambda of_kind, n: look_ups_of(of_kind, n, figure))]

    alone = rows_of(runs["ours"], 0).median / rows_of(runs["redis"], 0).median
    return table(
        ["ours / peer", *("none" if not n else str(n) for n in in_flight)],
        [
            ["rows a second", f"{alone:.2f}", *ratios(rows_of)],
            ["rows kept", "", *ratios(kept)],
            ["look-ups a second", *of_look_ups(lambda sample: sample.per_second)],
            ["p50", *of_look_ups(lambda sample: sample.p50_us)],
            ["p99", *of_look_ups(lambda sample: sample.p99_us)],
        ],
    )


def _cpus(runs: Runs, in_flight: Sequence[int]) -> str:
    def cell(windows: Sequence[Window], part: str) -> str:
        busy = Spread.of([window.cpus[part] for window in windows]).median
        return f"{busy:.2f}" if busy >= 0.005 else ""

    rows = []
    for kind, of_kind in runs.items():
        for number in in_flight:
            windows = [w for run in of_kind for w in run if w.in_flight == number]
            title = f"{TITLES[kind]}, {number or 'none'}"
            rows.append([title, *(cell(windows, part) for part in PARTS)])
    return table(["job, in flight", *PARTS], rows)


def _range(spread: Spread) -> str:
    return f"{thousands(spread.median)} ({thousands(spread.lowest)}-{thousands(spread.highest)})"


def _shares(spread: Spread) -> str:
    return f"{spread.median:.2f} ({spread.lowest:.2f}-{spread.highest:.2f})"


def _look_ups(runs: Sequence[Sequence[Window]], in_flight: int) -> str:
    rate = look_ups_of(runs, in_flight, lambda sample: sample.per_second)
    p50 = look_ups_of(runs, in_flight, lambda sample: sample.p50_us)
    p99 = look_ups_of(runs, in_flight, lambda sample: sample.p99_us)
    return (
        f"{thousands(rate.median)}, {p50.median:.0f} / {p99.median:.0f} "
        f"({p99.lowest:.0f}-{p99.highest:.0f})"
    )


def to_json(runs: Runs) -> list[dict[str, object]]:
    """Every window of the run as JSON, in order of measurement."""
    return [
        {"job": kind, "run": number, **dataclasses.asdict(window)}
        for kind, of_kind in runs.items()
        for number, run in enumerate(of_kind)
        for window in run
    ]
