"""The methods that group the elements of a keyed stream by window."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.streaming.execution.execution_modes import TimeCharacteristic
from queryable_state.streaming.streams.windowed.windowed_stream import WindowedStream
from queryable_state.streaming.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
)
from queryable_state.streaming.windows.sliding_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
)
from queryable_state.streaming.windows.tumbling_windows import (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from queryable_state.streaming.config.durations import Time
    from queryable_state.streaming.graph.nodes import OperatorNode
    from queryable_state.streaming.streams.keyed_input import KeyedInput
    from queryable_state.streaming.windows.assigner import WindowAssigner

S = TypeVar("S")


class Windowing(Generic[S]):
    """Windows of a keyed stream; S is the class of the stream of their results."""

    _input: KeyedInput

    @abstractmethod
    def _operator_stream(self, node: OperatorNode) -> S:
        """The stream of an operator's output."""

    def window(self, window_assigner: WindowAssigner) -> WindowedStream[S]:
        """Groups the elements of each key by window."""
        return WindowedStream(self._input, window_assigner, self._operator_stream)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[S]:
        """Groups the elements of each key by their number: windows of `size` elements, one behind
        the other, or one that starts at each `slide` elements."""
        return self.window(count_windows(size, slide))

    def time_window(
        self, size: Time | timedelta, slide: Time | timedelta | None = None
    ) -> WindowedStream[S]:
        """The shortcut of Flink 1.10 for tumbling windows, or for sliding ones with `slide`.

        They are of event time, unless the stream time characteristic of the environment is
        ProcessingTime.
        """
        characteristic = self._input.environment.get_stream_time_characteristic()
        return self.window(time_windows(size, slide, characteristic))


def count_windows(size: int, slide: int) -> WindowAssigner:
    """The assigner of count windows; a slide of 0 is that of the size."""
    if slide == 0:
        return CountTumblingWindowAssigner.of(size)
    return CountSlidingWindowAssigner.of(size, slide)


def time_windows(
    size: Time | timedelta, slide: Time | timedelta | None, characteristic: TimeCharacteristic
) -> WindowAssigner:
    """The assigner of tumbling or sliding windows by the clock of an environment."""
    if characteristic is TimeCharacteristic.ProcessingTime:
        if slide is None:
            return TumblingProcessingTimeWindows.of(size)
        return SlidingProcessingTimeWindows.of(size, slide)
    if slide is None:
        return TumblingEventTimeWindows.of(size)
    return SlidingEventTimeWindows.of(size, slide)
