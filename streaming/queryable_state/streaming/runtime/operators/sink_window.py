"""Window column of a queryable sink, and how long the values of a window are kept."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.streaming.runtime.timers.timer_descriptor import TimerDescriptor
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE
from queryable_state.wire.schema.types import Kind, TypeInfo


@dataclass(frozen=True, kw_only=True)
class SinkWindow:
    """The column with the time window of each element of a queryable sink.

    An operator with such a column registers timers, also if it removes nothing: then another start
    may change how long values are kept.
    """

    column: str
    is_key: bool = False
    """True if the column is part of the key; else a key has a value for each window."""
    has_watermark: bool = True
    """True if the watermark of the stream passes these windows."""
    retain_ms: int | None = 0
    """Milliseconds of event time for which a value is kept after the end of its window; None: it
    is never removed."""

    @property
    def evicts(self) -> bool:
        """True if values are removed."""
        return self.has_watermark and self.retain_ms is not None

    @property
    def timers(self) -> TimerDescriptor:
        """The timers of the operator: one for each key and window, in the window's namespace."""
        return TimerDescriptor().in_namespaces(TIME_WINDOW_TYPE)


def is_window(info: object) -> bool:
    """True for the type of Spark's windows: a row of the timestamps `start` and `end`."""
    if not isinstance(info, TypeInfo) or info.kind != Kind.ROW:
        return False
    kinds = {field.type.kind for field in info.fields}
    names = [field.name for field in info.fields]
    return names == ["start", "end"] and kinds in ({Kind.TIMESTAMP}, {Kind.TIMESTAMP_NTZ})
