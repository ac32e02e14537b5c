"""Figures as people read them, in columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]


def bytes_text(size_bytes: float) -> str:
    """A size in the unit that fits it: `1.5 MiB`."""
    for unit in _UNITS:
        if size_bytes < 1024 or unit == _UNITS[-1]:
            break
        size_bytes /= 1024
    return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"


def percent_text(part: int, whole: int) -> str:
    """A share: `12 %`; of nothing, nothing."""
    return f"{100 * part / whole:.0f} %" if whole else ""


def ms_text(duration_ms: int) -> str:
    """A duration: `120 ms`, `1.2 s`."""
    return f"{duration_ms} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"


def time_text(ms: int) -> str:
    """Milliseconds since the epoch as a time in UTC; 0: none."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if ms else ""
