"""Figures of samples, and their text: medians, percentiles, tables, JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Spread:
    """The median and range of repeated measurements."""

    median: float
    lowest: float
    highest: float
    count: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """The spread of at least one sample."""
        return cls(statistics.median(samples), min(samples), max(samples), len(samples))


def percentile(ordered: Sequence[int], share: float) -> int:
    """The value below which `share` of the ascending samples lie; 0 if there are none."""
    if not ordered:
        return 0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def thousands(per_second: float) -> str:
    """`4.82k`, `19.3k`, `153k`: three digits."""
    value = per_second / 1000
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}k"


def ratio(figure: float, divisor: float) -> str:
    """`1.08`; `-` if the divisor is 0."""
    return f"{figure / divisor:.2f}" if divisor else "-"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table: the first column left-aligned, the others right-aligned."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = ["-" * width if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    return "\n".join([line(header), line(rule), *(line(row) for row in rows)])


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Writes all figures of a run as JSON."""
    path.write_text(json.dumps(content, indent=2) + "\n")
