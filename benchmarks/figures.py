"""Samples to figures, figures to tables."""

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
    """The median of repeated measurements and how far they lie apart."""

    median: float
    lowest: float
    highest: float
    count: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """The spread of at least one sample."""
        return cls(statistics.median(samples), min(samples), max(samples), len(samples))


def percentile(ordered: Sequence[int], share: float) -> int:
    """The value below which `share` of the ascending samples lie; 0 of none."""
    if not ordered:
        return 0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def thousands(per_second: float) -> str:
    """`4.82k`, `19.3k`, `153k`: three digits, as far as any such figure can be trusted."""
    value = per_second / 1000
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}k"


def ratio(figure: float, of: float) -> str:
    """`1.08`; `-` where the other one answered nothing in its time."""
    return f"{figure / of:.2f}" if of else "-"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table, columns padded: first left, others right."""
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
    """All figures of a run, for comparing runs."""
    path.write_text(json.dumps(content, indent=2) + "\n")
