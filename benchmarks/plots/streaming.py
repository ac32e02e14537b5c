"""The picture of `benchmarks.streaming`."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.plots.style import BLUE, GREY, new_figure, short
from benchmarks.streaming.runs import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure


def streaming(figures: Mapping[str, Any]) -> Figure | None:
    """Rows a second of each variant, the range of its runs' medians as a whisker."""
    by_variant = {
        name: [median(run["rows_per_second"]) for run in runs]
        for name, runs in figures["runs"].items()
        if runs
    }
    if not by_variant:
        return None
    titles = {variant.name: variant.title for variant in VARIANTS}
    names = list(by_variant)
    middles = [
        median(rate for run in figures["runs"][name] for rate in run["rows_per_second"])
        for name in names
    ]
    picture = new_figure(8.0, 0.9 + 0.42 * len(names))
    axes = picture.subplots()
    places = range(len(names))
    colors = [BLUE if titles.get(name, name).startswith("ours") else GREY for name in names]
    axes.barh(places, middles, color=colors, height=0.62)
    for place, name, middle in zip(places, names, middles, strict=True):
        lowest, highest = min(by_variant[name]), max(by_variant[name])
        axes.plot([lowest, highest], [place, place], color="black", linewidth=1.2, marker="|")
        axes.annotate(
            short(round(middle, -3)),
            (max(middle, highest), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    axes.set_yticks(list(places), [titles.get(name, name) for name in names])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.xaxis.set_major_formatter(short)
    axes.margins(x=0.09)
    axes.set_title("Rows a second (ours blue; whisker: range of runs)", loc="left", fontsize=11)
    return picture
