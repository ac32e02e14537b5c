"""A keyed stream whose elements are grouped by window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queryable_state.streaming.functions import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
)
from queryable_state.streaming.operator_handles import QueryableStateStream
from queryable_state.streaming.streams.rolling import Rolling
from queryable_state.streaming.streams.windowed.column_windows import ColumnWindows
from queryable_state.streaming.windows.window_functions import (
    ProcessWindowFunction,
    WindowFunction,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import AggregateFunction, ReduceFunction

S = TypeVar("S")


class WindowedStream(ColumnWindows[S], Generic[S]):
    """The elements of each key in windows; created by `KeyedStream.window`.

    The outputs of all methods have the last timestamp of their window as event time. With
    `queryable_name` the contents of the live windows can be queried, by key and window, from the
    batch of their first element to their end. The results of windows that have fired are an
    ordinary stream: `key_by(...).as_queryable_state(name)` keeps the newest of each key.
    """

    _apply_class = WindowFunction
    _process_class = ProcessWindowFunction

    def reduce(
        self,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        output_type: object = None,
        *,
        queryable_name: str | None = None,
    ) -> S:
        """Reduces the elements of each window as they arrive; emits the reduced element, or the
        outputs of a window function that gets it."""
        return self._reduce(reduce_function, window_function, output_type, queryable_name)

    def aggregate(
        self,
        aggregate_function: AggregateFunction[Any, Any, Any],
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        accumulator_type: object = None,
        output_type: object = None,
        *,
        queryable_name: str | None = None,
    ) -> S:
        """Aggregates the elements of each window as they arrive; emits the result, or the outputs
        of a window function that gets it.

        Without `accumulator_type` the accumulator is pickled. Sessions call `merge` of the
        function.
        """
        return self._aggregate(
            aggregate_function, window_function, accumulator_type, output_type, queryable_name
        )

    def apply(self, window_function: WindowFunction, output_type: object = None) -> S:
        """Keeps the elements of each window; emits the outputs of a function that gets them."""
        return self._listed("apply", window_function, output_type)

    def process(
        self, process_window_function: ProcessWindowFunction, output_type: object = None
    ) -> S:
        """Keeps the elements of each window; emits the outputs of a function that gets them, with
        state and clocks."""
        return self._listed("process", process_window_function, output_type)

    def sum(self, position_to_sum: int | str = 0) -> S:
        """Emits for each window its first element with this field summed.

        Like `min`, `max`, `min_by` and `max_by` it takes a field by position or name.
        """
        return self._rolling(Rolling.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> S:
        """Emits for each window its first element with the smallest value of this field."""
        return self._rolling(Rolling.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> S:
        """Emits for each window its first element with the greatest value of this field."""
        return self._rolling(Rolling.MAX, position_to_max)

    def min_by(self, position_to_min_by: int | str = 0) -> S:
        """Emits for each window the element with the smallest value of this field."""
        return self._rolling(Rolling.MIN_BY, position_to_min_by)

    def max_by(self, position_to_max_by: int | str = 0) -> S:
        """Emits for each window the element with the greatest value of this field."""
        return self._rolling(Rolling.MAX_BY, position_to_max_by)

    def as_queryable_state(
        self,
        name: str,
        descriptor: ReducingStateDescriptor[Any] | AggregatingStateDescriptor[Any, Any, Any],
        *,
        fired: bool = False,
    ) -> QueryableStateStream:
        """Makes what the elements of each window are reduced or aggregated to queryable; emits
        nothing.

        By default these are the live windows: queries name a key and a window, and a window is gone
        at its end. With `fired` it is the result of each key's newest window that has fired:
        queries name a key, and the result stays until a later window fires.
        """
        if not isinstance(descriptor, ReducingStateDescriptor | AggregatingStateDescriptor):
            raise InvalidRequestError(
                f"as_queryable_state({name!r}) of a windowed stream takes a "
                f"ReducingStateDescriptor or AggregatingStateDescriptor, not {descriptor!r}"
            )
        node = self._queryable_node(name, descriptor, fired=fired)
        return QueryableStateStream(self._input.environment, node, name)
