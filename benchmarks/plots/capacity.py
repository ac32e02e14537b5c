"""The picture of `benchmarks.capacity`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter

from benchmarks.plots.style import BLUE, SKY, Line, name_lines, new_figure, short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

LINES = {"heap": ("heap", Line(SKY, "s")), "rocksdb": ("RocksDB", Line(BLUE, "o"))}
PANELS = (
    ("bytes_per_key", 1.0, "Server memory, bytes per key"),
    ("p50_us", 1e-3, "Look-up of one key, p50 in ms"),
)


def capacity(figures: Mapping[str, Any]) -> Figure | None:
    """Draws memory per key and the p50 of a look-up against the number of keys."""
    rows = figures["rows"]
    if not rows:
        return None
    picture = new_figure(9.0, 3.6)
    for axes, (figure, unit, title) in zip(picture.subplots(1, len(PANELS)), PANELS, strict=True):
        ends = []
        for backend, (name, line) in LINES.items():
            points = sorted(
                (row["keys"], row[figure] * unit) for row in rows if row["backend"] == backend
            )
            if points:
                axes.plot(*zip(*points, strict=True), **line.keywords())
                ends.append((name, *points[-1], line.color))
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(FuncFormatter(short))
        axes.set_xlabel("keys")
        axes.set_title(title, loc="left", fontsize=11)
        name_lines(axes, ends)
    return picture
