"""The methods that group all elements of a stream by window."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queryable_state.streaming.ordering import EVENT_TIME, order_columns
from queryable_state.streaming.streams.keyed_input import KeyedInput
from queryable_state.streaming.streams.keys import keyed
from queryable_state.streaming.streams.windowed.all_windowed_stream import AllWindowedStream
from queryable_state.streaming.streams.windowed.windowing import count_windows, time_windows
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from datetime import timedelta

    from queryable_state.streaming.config.durations import Time
    from queryable_state.streaming.graph.nodes import OperatorNode, StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.windows.assigner import WindowAssigner

S = TypeVar("S")


class AllWindowing(Generic[S]):
    """Windows of a stream without keys; S is the class of the stream of their results.

    All elements have one key, so the operator has one subtask.
    """

    _environment: StreamEnvironment
    _node: StreamNode

    @abstractmethod
    def _operator_stream(self, node: OperatorNode) -> S:
        """The stream of an operator's output."""

    def window_all(self, window_assigner: WindowAssigner) -> AllWindowedStream[S]:
        """Groups all elements by window."""
        columns = self._node.columns
        order = order_columns(EVENT_TIME, columns, "window_all")
        node, selector = keyed(self._node, (_one_key,), Types.INT())
        read = KeyedInput(self._environment, node, selector, columns, order)
        return AllWindowedStream(read, window_assigner, self._in_one_subtask)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[S]:
        """Groups all elements by their number, as `KeyedStream.count_window` those of a key."""
        return self.window_all(count_windows(size, slide))

    def time_window_all(
        self, size: Time | timedelta, slide: Time | timedelta | None = None
    ) -> AllWindowedStream[S]:
        """Groups all elements by time, as `KeyedStream.time_window` those of a key."""
        characteristic = self._environment.get_stream_time_characteristic()
        return self.window_all(time_windows(size, slide, characteristic))

    def _in_one_subtask(self, node: OperatorNode) -> S:
        node.parallelism = 1
        return self._operator_stream(node)


def _one_key(_: Any) -> int:
    """The key of all elements."""
    return 0
