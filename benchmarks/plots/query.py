"""The pictures of `benchmarks.query`."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Line,
    log_axes,
    name_lines,
    new_figure,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

LINES = {
    "direct, heap": Line(SKY, "o", "-", 2.4),
    "direct, RocksDB": Line(BLUE, "o", "-", 2.4),
    "direct, RocksDB, default GC": Line(BLUE, "o", ":"),
    "direct, RocksDB, large commits": Line(BLUE, "P", "--"),
    "direct, RocksDB, Spark job": Line(BLUE, "X", ":"),
    "proxy, RocksDB": Line(GREEN, "s"),
    "proxy, 2 RocksDB": Line(GREEN, "D", "--"),
    "Flink, heap": Line(ORANGE, "^", "--"),
    "Flink, RocksDB": Line(VERMILION, "^"),
    "redis-py, best pool": Line(PURPLE, "v"),
    "redis-py, 16 connections": Line(PURPLE, "P", "--"),
    "redis-py, 64 connections": Line(PURPLE, "X", ":"),
    "valkey-glide": Line(BLACK, "v", "--"),
}
OTHER = Line(GREY, ".")
HELD_P99_MS = 5.0


def rates(figures: Mapping[str, Any]) -> Figure | None:
    """Draws look-ups a second against look-ups in flight."""
    return _against_in_flight(
        figures,
        "per_second",
        1.0,
        "Look-ups a second, single keys (closed loop under updates)",
        "look-ups/s",
    )


def latencies(figures: Mapping[str, Any]) -> Figure | None:
    """Draws the p99 against look-ups in flight."""
    return _against_in_flight(
        figures, "p99_us", 1e-3, "p99 of single keys in ms (closed loop; lower is better)", "ms"
    )


def _against_in_flight(
    figures: Mapping[str, Any], figure: str, unit: float, title: str, label: str
) -> Figure | None:
    series: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for loop in figures["loops"]:
        if loop["operation"] == "hits":
            series[loop["peer"]][loop["in_flight"]].append(loop[figure] * unit)
    if not series:
        return None
    picture = new_figure()
    axes = picture.subplots()
    ends = []
    for peer, points in series.items():
        line = LINES.get(peer, OTHER)
        counts = sorted(points)
        values = [median(points[count]) for count in counts]
        axes.plot(counts, values, **line.keywords())
        axes.fill_between(
            counts,
            [min(points[count]) for count in counts],
            [max(points[count]) for count in counts],
            color=line.color,
            alpha=0.08,
            linewidth=0,
        )
        ends.append((peer, counts[-1], values[-1], line.color))
    log_axes(axes, sorted({count for points in series.values() for count in points}))
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("look-ups in flight")
    axes.set_ylabel(label)
    name_lines(axes, ends)
    return picture


def open_loop(figures: Mapping[str, Any]) -> Figure | None:
    """Draws the p99 against the rate of arrivals, with a cross if the client did not keep up."""
    tries: dict[str, dict[float, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for loop in figures["open_loops"]:
        tries[loop["peer"]][loop["rate"]].append(loop)
    if not tries:
        return None
    picture = new_figure()
    axes = picture.subplots()
    ends = []
    for peer, of_peer in tries.items():
        line = LINES.get(peer, OTHER)
        points: list[tuple[float, float]] = []
        for rate, loops in sorted(of_peer.items()):
            kept_up = [loop["p99_us"] / 1000 for loop in loops if loop["kept_up"]]
            if 2 * len(kept_up) > len(loops):
                points.append((rate, median(kept_up)))
            else:
                axes.plot(
                    [rate], [0.985], "x", color=line.color, transform=axes.get_xaxis_transform()
                )
        if points:
            axes.plot(*zip(*points, strict=True), **line.keywords())
            ends.append((peer, *points[-1], line.color))
    log_axes(axes)
    axes.axhline(HELD_P99_MS, color=GREY, linewidth=1, linestyle="--")
    axes.annotate(
        "5 ms",
        (0.005, HELD_P99_MS),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        color=GREY,
        fontsize=9,
    )
    axes.set_title(
        "p99 in ms at Poisson arrivals (crosses: the client process did not keep up)",
        loc="left",
        fontsize=11,
    )
    axes.set_xlabel("arrivals a second")
    axes.set_ylabel("ms")
    name_lines(axes, ends)
    return picture
