"""Assigners of windows by the number of a key's elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.windows.assigner import WindowAssigner
from queryable_state.streaming.windows.count_trigger import CountTrigger, whole_number
from queryable_state.streaming.windows.purging_trigger import PurgingTrigger
from queryable_state.streaming.windows.serializers import CountWindowSerializer
from queryable_state.streaming.windows.window import CountWindow
from queryable_state.wire.schema.type_variables import T
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Collection

    from queryable_state.streaming.windows.trigger import Trigger


class _CountWindows(WindowAssigner[T, CountWindow], Generic[T]):
    """Windows of a number of elements. A window that has fired is purged: it gets no more."""

    def __init__(self, window_size: int, state_name: str) -> None:
        self._window_size = whole_number(window_size, "the size of a count window")
        self._count_descriptor = ValueStateDescriptor(state_name, Types.LONG())

    def _next_position(self, context: WindowAssigner.WindowAssignerContext) -> int:
        """The position of the element among those of its key, from 0."""
        count = context.get_runtime_context().get_state(self._count_descriptor)
        position = count.value() or 0
        count.update(position + 1)
        return position

    def get_default_trigger(self, env: object) -> Trigger[T, CountWindow]:
        return PurgingTrigger.of(CountTrigger.of(self._window_size))

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Windows of `window_size` elements, one behind the other."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[T]:
        """Windows of this number of elements."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        return (CountWindow(self._next_position(context) // self._window_size),)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._window_size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Windows of `window_size` elements, of which one starts at each `window_slide` elements."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, "slide-count-assigner")
        self._window_slide = whole_number(window_slide, "the slide of a count window")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[T]:
        """Windows of this number of elements at this slide."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        position, slide = self._next_position(context), self._window_slide
        first = max(0, (position - self._window_size) // slide + 1)
        return [CountWindow(number) for number in range(position // slide, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._window_size}, {self._window_slide})"
