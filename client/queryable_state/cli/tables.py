"""Formatting of values and tables for people."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.wire.keys.time_window import TimeWindow

_CELL_CHARS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The watermark behind the end of bounded input.
_END_OF_TIME_MS = (1 << 63) - 1
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class GrowingTable:
    """A table that is printed in parts; later parts may have wider columns."""

    def __init__(self, head: Sequence[str]) -> None:
        self._head: Sequence[str] | None = head
        self._widths = [0] * len(head)

    def add(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Lines with aligned columns; the first part begins with the header."""
        rows = [[printable(text) for text in row] for row in rows]
        if self._head is not None:
            rows, self._head = [self._head, *rows], None
        columns = zip(self._widths, *rows, strict=True)
        self._widths = [max([width, *map(len, cells)]) for width, *cells in columns]
        return [
            "  ".join(c.ljust(width) for c, width in zip(row, self._widths, strict=True)).rstrip()
            for row in rows
        ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with aligned columns."""
    return GrowingTable(head).add(rows)


def printable(text: str, keep: str = "") -> str:
    """A text of a job or a server, with escapes for what would move the cursor or hide text.

    The characters of `keep` stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode()
        for each in text
    )


def message_text(text: str) -> str:
    """As `printable`, for messages and tracebacks of more than one line."""
    return printable(text, keep="\n\t")


def cell(jsonable: Any) -> str:
    """A JSON value as one table cell: printable strings without quotes, no control characters.

    The string `null` keeps its quotes, which tell it from a null.
    """
    if isinstance(jsonable, str) and jsonable.isprintable() and jsonable != "null":
        text = jsonable
    else:
        text = json.dumps(jsonable, ensure_ascii=False)
        if not text.isprintable():
            text = json.dumps(jsonable)
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 3] + "..."


def bytes_text(size_bytes: float) -> str:
    """A size with a unit: `1.5 MiB`."""
    for unit in _UNITS:
        if size_bytes < 1024 or unit == _UNITS[-1]:
            break
        size_bytes /= 1024
    return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"


def estimate_text(text: str, number: int, error: int) -> str:
    """A number's text with its relative error: `1.5 MiB +- 1.2 %`; without it if it is exact."""
    return f"{text} +- {100 * error / max(1, number):.1f} %" if error else text


def percent_text(part: int, whole: int) -> str:
    """A percentage: `12 %`; empty if `whole` is 0."""
    return f"{100 * part / whole:.0f} %" if whole else ""


def age_text(duration_ms: int) -> str:
    """A duration in the largest unit that fits: `59 s`, `12 min`, `3 h`, `5 d`."""
    seconds = duration_ms // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def ms_text(duration_ms: int) -> str:
    """A duration: `120 ms`, `1.2 s`."""
    return f"{duration_ms} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"


def us_text(duration_us: int) -> str:
    """A duration: `85 us`, `1.2 ms`, `1.2 s`."""
    if duration_us < 1000:
        return f"{duration_us} us"
    return (
        f"{duration_us / 1000:.1f} ms" if duration_us < 1_000_000 else ms_text(duration_us // 1000)
    )


def time_text(ms: int) -> str:
    """Milliseconds since the epoch as a UTC time; empty for 0."""
    if not ms:
        return ""
    time = _time(ms)
    return _beyond(ms) if time is None else time.strftime("%Y-%m-%d %H:%M:%SZ")


def iso_text(ms: int, below_us: int = 0) -> str:
    """Milliseconds since the epoch, and microseconds below them, as an ISO time.

    The number of milliseconds if it is no time of the calendar.
    """
    time = _time(ms)
    if time is None:
        return str(ms)
    if below_us:
        text = (time + timedelta(microseconds=below_us)).isoformat()
    else:
        text = time.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")
    return text.replace("+00:00", "Z")


def window_text(window: TimeWindow) -> str:
    """A window as `--window` takes it."""
    start = iso_text(window.start, window.start_us % 1000)
    return f"{start}/{iso_text(window.end, window.end_us % 1000)}"


def _time(ms: int) -> datetime | None:
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None


def _beyond(ms: int) -> str:
    return "end of time" if ms == _END_OF_TIME_MS else f"{ms} ms"
