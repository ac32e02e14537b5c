"""Assigners of time windows of one size that start at each slide, so that they may overlap."""

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


class SlidingWindows(WindowAssigner[T, TimeWindow]):
    """Windows of one size, of which one starts at each slide."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        """All in milliseconds; raises InvalidRequestError unless size > 0 and
        abs(offset) < slide."""
        if size <= 0 or slide <= 0 or abs(offset) >= slide:
            raise InvalidRequestError(
                f"{type(self).__name__}: size and slide must be positive and the offset shorter "
                f"than the slide, not {size} ms, {slide} ms and {offset} ms"
            )
        self.size_ms = size
        self.slide_ms = slide
        self.offset_ms = offset

    @classmethod
    def of(
        cls,
        size: Time | timedelta,
        slide: Time | timedelta,
        offset: Time | timedelta | None = None,
    ) -> Self:
        """Windows of `size`, which start at `offset` after the epoch and at each `slide` from
        there. With a slide longer than the size elements between two windows belong to none."""
        shift = 0 if offset is None else time_of(offset, "the offset").to_milliseconds()
        return cls(
            time_of(size, "the size of a window").to_milliseconds(),
            time_of(slide, "the slide").to_milliseconds(),
            shift,
        )

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]: ...

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def _windows_of(self, timestamp: int) -> list[TimeWindow]:
        last = TimeWindow.get_window_start_with_offset(timestamp, self.offset_ms, self.slide_ms)
        size = self.size_ms
        return [
            TimeWindow(start, start + size)
            for start in range(last, timestamp - size, -self.slide_ms)
        ]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.slide_ms}, {self.offset_ms})"


class SlidingEventTimeWindows(SlidingWindows[T]):
    """Sliding windows by the timestamps of the elements."""

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._windows_of(timestamp)

    def get_default_trigger(self, env: object) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class SlidingProcessingTimeWindows(SlidingWindows[T]):
    """Sliding windows by the time of the batch that reads the elements."""

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self._windows_of(context.get_current_processing_time())

    def get_default_trigger(self, env: object) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False
