"""Assigners of time windows of one size that do not overlap."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Self

from queryable_state.streaming.config.durations import time_of
from queryable_state.streaming.windows.assigner import WindowAssigner
from queryable_state.streaming.windows.serializers import TimeWindowSerializer
from queryable_state.streaming.windows.time_triggers import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
)
from queryable_state.streaming.windows.window import TimeWindow
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_variables import T

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from queryable_state.streaming.config.durations import Time
    from queryable_state.streaming.windows.trigger import Trigger


class TumblingWindows(WindowAssigner[T, TimeWindow]):
    """Windows of one size, one behind the other."""

    def __init__(self, size: int, offset: int) -> None:
        """Both in milliseconds; raises InvalidRequestError unless abs(offset) < size."""
        if size <= 0 or abs(offset) >= size:
            raise InvalidRequestError(
                f"{type(self).__name__}: the size must be positive and the offset shorter than "
                f"the size, not {size} ms and {offset} ms"
            )
        self.size_ms = size
        self.offset_ms = offset

    @classmethod
    def of(cls, size: Time | timedelta, offset: Time | timedelta | None = None) -> Self:
        """Windows of `size`, which start at `offset` after the epoch and at each `size` from there.

        An offset moves windows to a time zone: days of UTC+8 are `of(Time.days(1),
        Time.hours(-8))`.
        """
        shift = 0 if offset is None else time_of(offset, "the offset").to_milliseconds()
        return cls(time_of(size, "the size of a window").to_milliseconds(), shift)

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]: ...

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def _window_of(self, timestamp: int) -> tuple[TimeWindow]:
        start = TimeWindow.get_window_start_with_offset(timestamp, self.offset_ms, self.size_ms)
        return (TimeWindow(start, start + self.size_ms),)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.offset_ms})"


class TumblingEventTimeWindows(TumblingWindows[T]):
    """Tumbling windows by the timestamps of the elements."""

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._window_of(timestamp)

    def get_default_trigger(self, env: object) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class TumblingProcessingTimeWindows(TumblingWindows[T]):
    """Tumbling windows by the time of the batch that reads the elements."""

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._window_of(context.get_current_processing_time())

    def get_default_trigger(self, env: object) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False
