"""A stream without keys whose elements are grouped by window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queryable_state.streaming.streams.windowed.window_operators import WindowOperators
from queryable_state.streaming.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import AggregateFunction, ReduceFunction

S = TypeVar("S")


class AllWindowedStream(WindowOperators[S], Generic[S]):
    """All elements of a stream in windows; created by `DataStream.window_all`.

    One subtask has all of them. The outputs have the last timestamp of their window as event time.
    """

    _apply_class = AllWindowFunction
    _process_class = ProcessAllWindowFunction

    def reduce(
        self,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        window_function: AllWindowFunction | ProcessAllWindowFunction | None = None,
        output_type: object = None,
    ) -> S:
        """Reduces the elements of each window as they arrive; emits the reduced element, or the
        outputs of a window function that gets it."""
        return self._reduce(reduce_function, window_function, output_type, None)

    def aggregate(
        self,
        aggregate_function: AggregateFunction[Any, Any, Any],
        window_function: AllWindowFunction | ProcessAllWindowFunction | None = None,
        accumulator_type: object = None,
        output_type: object = None,
    ) -> S:
        """Aggregates the elements of each window as they arrive; emits the result, or the outputs
        of a window function that gets it. Without `accumulator_type` the accumulator is
        pickled."""
        return self._aggregate(
            aggregate_function, window_function, accumulator_type, output_type, None
        )

    def apply(self, window_function: AllWindowFunction, output_type: object = None) -> S:
        """Keeps the elements of each window; emits the outputs of a function that gets them."""
        return self._listed("apply", window_function, output_type)

    def process(
        self, process_window_function: ProcessAllWindowFunction, output_type: object = None
    ) -> S:
        """Keeps the elements of each window; emits the outputs of a function that gets them, with
        state."""
        return self._listed("process", process_window_function, output_type)
