"""The picture of `benchmarks.streaming`."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter

from benchmarks.plots.style import BLUE, GREY, new_figure, short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def streaming(figures: Mapping[str, Any]) -> Figure | None:
    """Draws rows a second of each variant, one panel per workload."""
    workloads = {name: each["variants"] for name, each in figures["workloads"].items()}
    counts = [len(variants) for variants in workloads.values()]
    if not all(counts) or not counts:
        return None
    picture = new_figure(8.6, sum(0.9 + 0.4 * count for count in counts))
    picture.suptitle(
        "Rows a second (ours blue; whisker: medians of runs)", x=0.01, ha="left", fontsize=11
    )
    panels = picture.subplots(len(counts), 1, squeeze=False, height_ratios=[n + 1 for n in counts])
    for axes, (name, variants) in zip(panels[:, 0], workloads.items(), strict=True):
        of = figures["workloads"][name]["of"]
        axes.set_title(
            f"{short(of['rows'])} rows, {short(of['keys'])} keys", loc="left", fontsize=10
        )
        _bars(axes, variants)
    return picture


def _bars(axes: Axes, variants: Sequence[Mapping[str, Any]]) -> None:
    places = range(len(variants))
    middles = [variant["rows_per_second"]["median"] for variant in variants]
    colors = [BLUE if variant["title"].startswith("ours") else GREY for variant in variants]
    axes.barh(places, middles, color=colors, height=0.62)
    for place, variant, middle in zip(places, variants, middles, strict=True):
        by_run = [median(run["rows_per_second"]) for run in variant["runs"]]
        axes.plot([min(by_run), max(by_run)], [place, place], color="black", marker="|")
        axes.annotate(
            short(middle),
            (max(middle, *by_run), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks(list(places), [variant["title"] for variant in variants])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(FuncFormatter(short))
    axes.margins(x=0.09)
