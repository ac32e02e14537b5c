"""Harness of vectorised windowed aggregations, and their output rows as tuples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.config.durations import Time
from queryable_state.streaming.testing import WindowedOperatorHarness
from queryable_state.streaming.windows.sliding_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
)
from queryable_state.streaming.windows.tumbling_windows import (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.stateless.output_tag import OutputTag
    from queryable_state.streaming.vectorised.column_aggregates import ColumnAggregate
    from queryable_state.streaming.windows.assigner import WindowAssigner


def windowed(
    aggregates: dict[str, ColumnAggregate],
    assigner: WindowAssigner,
    *,
    columns: str = "v bigint",
    key: str = "k string",
    key_by: str | list[str] = "k",
    lateness: int = 0,
    late_tag: OutputTag | None = None,
    **options: Any,
) -> WindowedOperatorHarness:
    """Aggregates, queryable as `windows`, over rows of the key, `t` (milliseconds) and columns."""

    def aggregated(windows: Any) -> Any:
        if late_tag is not None:
            windows.side_output_late_data(late_tag)
        windows.allowed_lateness(lateness)
        return windows.aggregate_columns(queryable_name="windows", **aggregates)

    return WindowedOperatorHarness(
        assigner,
        aggregated,
        f"{key}, t bigint, {columns}",
        key_by=key_by,
        event_time="t",
        side_outputs=[] if late_tag is None else [late_tag],
        **options,
    )


def time_windows(size: int, slide: int, offset: int, *, event_time: bool = True) -> WindowAssigner:
    """Windows of these milliseconds: tumbling ones if the slide is the size."""
    size_of, shift = Time.milliseconds(size), Time.milliseconds(offset)
    if slide == size:
        tumbling = TumblingEventTimeWindows if event_time else TumblingProcessingTimeWindows
        return tumbling.of(size_of, shift)
    sliding = SlidingEventTimeWindows if event_time else SlidingProcessingTimeWindows
    return sliding.of(size_of, Time.milliseconds(slide), shift)


def rows_of(outputs: Iterable[Any], *, keys: int = 1) -> list[tuple[Any, ...]]:
    """The rows, sorted, with window start and end in milliseconds since the epoch."""
    made = []
    for row in outputs:
        times = [round(at.timestamp() * 1000) for at in row[keys : keys + 2]]
        made.append((*row[:keys], *times, *row[keys + 2 :]))
    return sorted(made, key=repr)
