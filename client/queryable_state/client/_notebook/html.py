"""HTML of states and explanations for notebooks."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from queryable_state.wire.errors import QueryableStateError

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


def state_html(caption: str, content: Any) -> str:
    """A table with a line for each element of a list, entry of a map, or field of a row.

    `content` is the decoded state, or the error of decoding it.
    """
    names = getattr(content, "_fields", None)
    if isinstance(content, QueryableStateError):
        return html_table(caption, (), [(str(content),)])
    if isinstance(content, dict):
        return html_table(caption, ("key", "value"), content.items(), of=len(content))
    if isinstance(content, list):
        return html_table(caption, ("", "element"), enumerate(content), of=len(content))
    if names:
        return html_table(caption, ("field", "value"), zip(names, content, strict=False))
    return html_table(caption, (), [(content,)])


class Step(NamedTuple):
    """One step of a lookup."""

    text: str
    begun_us: int
    took_us: int


def explanation_html(result: Sequence[str], steps: Sequence[Step], total_us: int) -> str:
    """A timeline: a bar from the begin to the end of each step; `result` is the caption.

    A server's steps begin when the request arrives there, so the bars of two servers do not line
    up.
    """
    whole_us = max(1, total_us, *(step.begun_us + step.took_us for step in steps))
    rows = "".join(
        f"<tr><td {CELL}>{escape(shown(step.text))}</td>"
        f'<td style="width:20em">{_bar(step.begun_us / whole_us, step.took_us / whole_us)}</td>'
        "</tr>"
        for step in steps
    )
    return (
        f"<table>{caption_of(chr(10).join(map(shown, result)))}<tbody>{rows}</tbody></table>"
        f"<p>in all {total_us:,} µs</p>"
    )


def _bar(begin: float, width: float) -> str:
    """A bar in a cell; both are shares of the cell's width."""
    return (
        f'<div style="margin-left:{begin:.1%}; width:{width:.1%}; min-width:2px; height:0.8em; '
        'background:#4c78a8"></div>'
    )
