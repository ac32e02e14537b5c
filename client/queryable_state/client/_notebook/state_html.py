"""The state of one key as HTML."""

from __future__ import annotations

from typing import Any

from queryable_state.client._notebook.html import html_table
from queryable_state.wire.errors import QueryableStateError


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
