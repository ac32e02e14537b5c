"""Vectorised aggregations of the windows of a keyed stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from queryable_state.streaming.runtime.aggregates.time_windows import TimeWindows
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import (
    ColumnFunction,
    WindowColumn,
    WindowedAggregate,
)
from queryable_state.streaming.runtime.windows.window_operator import CONTENTS_NAME
from queryable_state.streaming.streams.operator_columns import aggregated_column
from queryable_state.streaming.streams.windowed.window_operators import WindowOperators
from queryable_state.streaming.vectorised.column_aggregates import ColumnAggregate
from queryable_state.streaming.windows.sliding_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
)
from queryable_state.streaming.windows.tumbling_windows import (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

S = TypeVar("S")

_TUMBLING: Final = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING: Final = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)


class ColumnWindows(WindowOperators[S], Generic[S]):
    """Built-in aggregates of columns by key and window, without a Python call per element.

    The windows are tumbling or sliding windows of time with their default trigger. Each window
    emits one row when it ends: the key columns, `window_start` and `window_end` (TIMESTAMP,
    exclusive), then the aggregates; its event time is the last millisecond of the window. Nulls are
    ignored, and the aggregate of only nulls is null. With allowed lateness each batch that has late
    elements of an ended window emits its row again.

    With `queryable_name` the aggregates of the live windows can be queried by key and window.
    """

    def aggregate_sum(self, *columns: str, queryable_name: str | None = None) -> S:
        """Sums columns by key and window, in the columns' own types."""
        return self._aggregate_each(ColumnFunction.SUM, columns, queryable_name)

    def aggregate_min(self, *columns: str, queryable_name: str | None = None) -> S:
        """Computes minima of columns by key and window."""
        return self._aggregate_each(ColumnFunction.MIN, columns, queryable_name)

    def aggregate_max(self, *columns: str, queryable_name: str | None = None) -> S:
        """Computes maxima of columns by key and window."""
        return self._aggregate_each(ColumnFunction.MAX, columns, queryable_name)

    def aggregate_avg(self, *columns: str, queryable_name: str | None = None) -> S:
        """Computes averages of integer or float columns by key and window.

        The output is a DOUBLE. The state of the average `x` has the fields `x_sum` and `x_count`.
        """
        return self._aggregate_each(ColumnFunction.AVG, columns, queryable_name)

    def aggregate_count(self, queryable_name: str | None = None) -> S:
        """Counts the elements by key and window, in the output column `count`."""
        return self._aggregate_columns(
            "aggregate_count", {"count": ColumnAggregate(ColumnFunction.COUNT)}, queryable_name
        )

    def aggregate_columns(
        self, *, queryable_name: str | None = None, **aggregates: ColumnAggregate
    ) -> S:
        """Computes several aggregates by key and window: `aggregate_columns(total=sum_of("price"),
        n=count_rows())`. The names are those of the output columns and of the state's fields.

        The functions are `sum_of`, `min_of`, `max_of`, `avg_of` and `count_rows`.
        """
        return self._aggregate_columns("aggregate_columns", aggregates, queryable_name)

    def _aggregate_each(
        self, function: ColumnFunction, columns: tuple[str, ...], queryable_name: str | None
    ) -> S:
        method = f"aggregate_{function}"
        if len(set(columns)) < len(columns):
            raise InvalidRequestError(f"{method}{columns!r}: a column is given twice")
        aggregates = {column: ColumnAggregate(function, column) for column in columns}
        return self._aggregate_columns(method, aggregates, queryable_name)

    def _aggregate_columns(
        self, method: str, aggregates: Mapping[str, ColumnAggregate], queryable_name: str | None
    ) -> S:
        if not aggregates:
            raise InvalidRequestError(f"{method} takes at least one column to aggregate")
        windows = self._time_windows(method)
        operator = WindowedAggregate(
            columns=tuple(self._column(method, *each) for each in aggregates.items()),
            windows=windows,
            # Windows of processing time have no late elements.
            lateness_ms=self._allowed_lateness_ms if windows.is_event_time else 0,
            late_tag=self._late_tag,
            state_name=CONTENTS_NAME,
            queryable_name=queryable_name,
        )
        return self._stream_of(self._input.windowed_aggregate(f"window-{method}", operator))

    def _column(self, method: str, name: str, aggregate: ColumnAggregate) -> WindowColumn:
        if not isinstance(aggregate, ColumnAggregate):
            raise InvalidRequestError(
                f"{method}({name}=...): an aggregate is a sum_of, min_of, max_of, avg_of or "
                f"count_rows, not {aggregate!r}"
            )
        if not aggregate.column:
            return WindowColumn(name, aggregate.function)
        purpose = f"{method}({aggregate.column!r})"
        info = aggregated_column(aggregate.function, aggregate.column, self._input.columns, purpose)
        return WindowColumn(name, aggregate.function, aggregate.column, info)

    def _time_windows(self, method: str) -> TimeWindows:
        assigner = self._assigner
        if type(assigner) not in (*_TUMBLING, *_SLIDING):
            raise InvalidRequestError(
                f"{method} is vectorised and takes tumbling or sliding windows of time, not "
                f"{assigner!r}: use aggregate() or reduce(), which take all windows"
            )
        if self._trigger is not None:
            raise InvalidRequestError(
                f"{method} is vectorised and takes no trigger, but {self._trigger!r} is set: a "
                "window emits its row when it ends. Remove the trigger, or use aggregate() or "
                "reduce()"
            )
        assert isinstance(assigner, (*_TUMBLING, *_SLIDING))
        slide_ms = assigner.slide_ms if isinstance(assigner, _SLIDING) else assigner.size_ms
        return TimeWindows(
            size_ms=assigner.size_ms,
            slide_ms=slide_ms,
            offset_ms=assigner.offset_ms,
            is_event_time=assigner.is_event_time(),
        )
