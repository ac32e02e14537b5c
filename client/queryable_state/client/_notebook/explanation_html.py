"""The explanation of a lookup as HTML."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.client._notebook.html import CELL, caption_of, shown

if TYPE_CHECKING:
    from collections.abc import Sequence


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
