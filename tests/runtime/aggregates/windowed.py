"""Harness of a vectorised windowed aggregation, and its output rows as tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.aggregates.time_windows import TimeWindows
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import (
    WindowColumn,
    WindowedAggregate,
    WindowFunction,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Iterable

WINDOW = "window_start timestamp, window_end timestamp"


def windowed(
    *columns: tuple[str, str, str, str],
    size: int,
    slide: int | None = None,
    offset: int = 0,
    event_time: bool = True,
    lateness: int = 0,
    key: str = "k string",
    key_by: str | list[str] = "k",
    **options: Any,
) -> KeyedOperatorHarness:
    """Aggregates of (name, function, column, type) over rows of the key, `t` and the columns."""
    operator = WindowedAggregate(
        columns=tuple(
            WindowColumn(name, WindowFunction(function), column, type_info(of or "bigint"))
            for name, function, column, of in columns
        ),
        windows=TimeWindows(
            size_ms=size,
            slide_ms=slide or size,
            offset_ms=offset,
            is_event_time=event_time,
        ),
        lateness_ms=lateness,
        late_tag=options.pop("late_tag", None),
        state_name="window-contents",
        queryable_name="windows",
    )
    read = dict.fromkeys(f"{column} {of}" for _, _, column, of in columns if column)
    outputs = ", ".join(f"{column.name} {column.type}" for column in operator.columns)
    return KeyedOperatorHarness(
        operator,
        ", ".join([key, "t bigint", *read]),
        key_by=key_by,
        event_time="t",
        output_type=f"{key}, {WINDOW}, {outputs}",
        **options,
    )


def rows_of(outputs: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The rows, sorted, with window start and end in milliseconds since the epoch."""
    made = [
        (row[0], *(round(at.timestamp() * 1000) for at in row[1:3]), *row[3:]) for row in outputs
    ]
    return sorted(made, key=repr)
