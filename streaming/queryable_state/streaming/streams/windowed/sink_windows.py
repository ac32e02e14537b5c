"""Windows of queryable sinks, from the arguments of `as_queryable_state`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from queryable_state.streaming.config.durations import Time, time_of
from queryable_state.streaming.graph.nodes import SourceNode, WatermarkNode, upstream_first
from queryable_state.streaming.runtime.operators.sink_window import SinkWindow, is_window
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming.graph.elements import Columns
    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.streaming.graph.nodes import StreamNode

FOREVER: Final = "forever"
Retain: TypeAlias = timedelta | Time | Literal["forever"]
"""How long after the end of its window a value is kept."""


def sink_window(
    node: StreamNode,
    keys: KeySelector,
    columns: Columns,
    name: str,
    window: str | None,
    retain: Retain | None,
) -> SinkWindow | None:
    """The window column of the sink `name` of a keyed stream: the given one, or one in the key;
    None: none.

    Raises InvalidRequestError if the column cannot be used, or if there is none to retain.
    """
    purpose = f"as_queryable_state({name!r})"
    retain_ms = _retain_ms(retain, purpose)
    if window is not None:
        _check_column(keys, columns, window, purpose)
        # A given duration counts, also if the watermark is not seen in the columns.
        watermark = retain is not None or has_watermark(node)
        return SinkWindow(column=window, has_watermark=watermark, retain_ms=retain_ms)
    found = [field.name for field in keys.fields if not keys.is_computed and is_window(field.type)]
    of_watermark = columns.event_time in found
    if of_watermark and columns.event_time is not None:
        found = [columns.event_time]
    if len(found) == 1:
        return SinkWindow(
            column=found[0],
            is_key=True,
            has_watermark=of_watermark or retain is not None,
            retain_ms=retain_ms,
        )
    if retain is not None:
        raise InvalidRequestError(
            f"{purpose}: retain={retain!r} says how long values are kept after the end of their "
            f"window, but the key has {len(found) or 'no'} windows: name the column of the window, "
            "window=<column>, or make exactly one window part of the key"
        )
    return None


def has_watermark(node: StreamNode) -> bool:
    """True if a stream has a watermark, of its program or of its DataFrame."""
    return any(
        isinstance(each, WatermarkNode) or (isinstance(each, SourceNode) and each.has_watermark)
        for each in upstream_first([node])
    )


def _check_column(keys: KeySelector, columns: Columns, window: str, purpose: str) -> None:
    if not isinstance(window, str):
        raise InvalidRequestError(f"{purpose}: window is the name of a column, not {window!r}")
    info = columns.type_of(window, purpose)
    if not is_window(info):
        raise InvalidRequestError(
            f"{purpose}: window={window!r} is a column of type {info}, but windows are rows of the "
            "timestamps start and end: take the column of pyspark.sql.functions.window, or make "
            "one with struct(start, end)"
        )
    if window in keys.columns:
        raise InvalidRequestError(
            f"{purpose}: window={window!r} is part of the key, too: leave window out, and clients "
            "give it with the key, or remove it from key_by, and they ask for a window of a key"
        )


def _retain_ms(retain: Retain | None, purpose: str) -> int | None:
    if retain is None:
        return 0
    if retain == FOREVER:
        return None
    if not isinstance(retain, Time | timedelta):
        raise InvalidRequestError(
            f"{purpose}: retain is a Duration such as Duration.of_hours(1), or {FOREVER!r}, not "
            f"{retain!r}"
        )
    found = time_of(retain, "retain").to_milliseconds()
    if found < 0:
        raise InvalidRequestError(f"{purpose}: retain is negative: {retain!r}; give 0 or more")
    return found
