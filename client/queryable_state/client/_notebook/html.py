"""Tables in HTML, for `_repr_html_`: Jupyter asks objects for it."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_ROWS = 50
_MOST_CHARACTERS = 300
# Jupyter aligns cells to the right.
CELL = 'style="text-align:left; white-space:pre-wrap"'


def shown(value: Any) -> str:
    """A value as text: texts as they are, other values as in Python, all of them shortened."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def time_text(at_ms: int) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(sep=" ", timespec="seconds")


def caption_of(text: str) -> str:
    """The caption of a table."""
    return (
        '<caption style="text-align:left; caption-side:top; white-space:pre-wrap">'
        f"{escape(text)}</caption>"
    )


def html_table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]], *, of: int | None = None
) -> str:
    """A table of the first 50 rows; `of` is the number of all rows, if it is known."""
    kept = list(islice(rows, MOST_ROWS))
    lines = [
        "<table>",
        caption_of(caption),
        f"<thead><tr>{_cells('th', head)}</tr></thead>" if head else "",
        "<tbody>",
        *(f"<tr>{_cells('td', row)}</tr>" for row in kept),
        "</tbody>",
        "</table>",
    ]
    if of is not None and of > len(kept):
        lines.append(f"<p>… the first {len(kept):,} of {of:,}</p>")
    return "\n".join(filter(None, lines))


def _cells(tag: str, values: Sequence[Any]) -> str:
    return "".join(f"<{tag} {CELL}>{escape(shown(value))}</{tag}>" for value in values)
