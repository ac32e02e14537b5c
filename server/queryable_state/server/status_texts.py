"""Numbers and times in findings, for people."""

from __future__ import annotations

from datetime import UTC, datetime


def age_text(duration_ms: float) -> str:
    """A duration: `850 ms`, `45 s`, `12 min`, `3 h`."""
    if duration_ms < 1000:
        return f"{duration_ms:.0f} ms"
    for unit_ms, unit in ((1000, "s"), (60_000, "min"), (3_600_000, "h")):
        if duration_ms < 120 * unit_ms or unit == "h":
            return f"{duration_ms / unit_ms:.0f} {unit}"
    raise AssertionError


def clock_text(time_ms: int) -> str:
    """Milliseconds since the epoch as a UTC time; the number if no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def count_text(count: int, noun: str) -> str:
    """A number with its noun: `1 run`, `3 runs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
