"""The common style of all pictures: colour-blind safe colours, names beside the lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
VERMILION, ORANGE = "#D55E00", "#E69F00"
PURPLE, GREY, BLACK = "#CC79A7", "#777777", "#222222"

# Identifiers are hashes with this salt instead of random ones; text stays text.
mpl.rcParams.update(
    {
        "svg.hashsalt": "queryable-state",
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "figure.facecolor": "white",
    }
)


@dataclass(frozen=True)
class Line:
    """The look of a series: colour and marker are both distinct."""

    color: str
    marker: str = "o"
    dashes: str = "-"
    width: float = 1.8

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of `Axes.plot`."""
        return {
            "color": self.color,
            "marker": self.marker,
            "linestyle": self.dashes,
            "linewidth": self.width,
            "markersize": 5,
        }


def new_figure(width: float = 8.0, height: float = 4.6) -> Figure:
    """An empty figure; the size is in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def short(value: float, _position: object = None) -> str:
    """`1.5k`, `20k`, `1M`: a number on an axis."""
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:g}"


def log_axes(axes: Axes, in_flight: Sequence[int] | None = None) -> None:
    """Makes both axes logarithmic with plain numbers; the x axis has ticks at `in_flight`."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
        axis.set_major_formatter(FuncFormatter(short))
        axis.set_minor_locator(NullLocator())
    if in_flight:
        axes.set_xticks(list(in_flight), [str(count) for count in in_flight])


def apart(values: Sequence[float], gap: float) -> list[float]:
    """The values, moved as little as needed to be a gap apart, in the same order."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    groups: list[tuple[float, list[int]]] = []
    for index in order:
        groups.append((values[index], [index]))
        while len(groups) > 1:
            (low, lower), (high, upper) = groups[-2:]
            if high - low >= gap * (len(lower) + len(upper)) / 2:
                break
            together = lower + upper
            middle = (low * len(lower) + high * len(upper)) / len(together)
            groups[-2:] = [(middle, together)]
    placed = [0.0] * len(values)
    for middle, members in groups:
        for place, index in enumerate(members):
            placed[index] = middle + gap * (place - (len(members) - 1) / 2)
    return placed


def name_lines(axes: Axes, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Writes each name (name, x, y, colour) to the right of its line's end.

    The limits of the axes must be final.
    """
    to_share = axes.transData + axes.transAxes.inverted()
    heights = [float(to_share.transform((x, y))[1]) for _, x, y, _ in ends]
    for (name, x, _, color), height in zip(ends, apart(heights, 0.058), strict=True):
        axes.annotate(
            name,
            (x, height),
            xycoords=("data", "axes fraction"),
            xytext=(8, 0),
            textcoords="offset points",
            color=color,
            va="center",
            ha="left",
            fontsize=9,
            annotation_clip=False,
        )


def save(figure: Figure, path: Path) -> None:
    """Writes the picture without a date, so that equal pictures are equal files."""
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
