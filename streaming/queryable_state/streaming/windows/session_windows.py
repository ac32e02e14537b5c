"""Assigners of sessions: windows that end at a gap between the elements of a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from queryable_state.streaming.config.durations import time_of
from queryable_state.streaming.windows.assigner import MergingWindowAssigner, WindowAssigner
from queryable_state.streaming.windows.serializers import TimeWindowSerializer
from queryable_state.streaming.windows.time_triggers import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
)
from queryable_state.streaming.windows.window import TimeWindow
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_variables import T

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import timedelta

    from queryable_state.streaming.config.durations import Time
    from queryable_state.streaming.windows.trigger import Trigger


class SessionWindowTimeGapExtractor(ABC):
    """User function that computes the session gap of each element."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap behind an element in milliseconds; positive."""


class SessionWindows(MergingWindowAssigner[T, TimeWindow]):
    """Sessions: an element belongs to the window from its time to the end of its gap, and windows
    that overlap or touch are merged."""

    @abstractmethod
    def _gap_ms(self, element: T) -> int:
        """The session gap that starts at this element, in milliseconds."""

    def merge_windows(
        self,
        windows: Iterable[TimeWindow],
        callback: MergingWindowAssigner.MergeCallback[TimeWindow],
    ) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()


class _EventTimeSessions(SessionWindows[T]):
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return (TimeWindow(timestamp, timestamp + self._gap_ms(element)),)

    def get_default_trigger(self, env: object) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeSessions(SessionWindows[T]):
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        now = context.get_current_processing_time()
        return (TimeWindow(now, now + self._gap_ms(element)),)

    def get_default_trigger(self, env: object) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class _FixedGap(SessionWindows[T]):
    def __init__(self, session_gap: int) -> None:
        """`session_gap` in milliseconds."""
        if session_gap <= 0:
            raise InvalidRequestError(
                f"{type(self).__name__}: the gap must be positive, not {session_gap} ms"
            )
        self.gap_ms = session_gap

    @classmethod
    def with_gap(cls, size: Time | timedelta) -> Self:
        """Sessions that end when a key has no element for `size`."""
        return cls(time_of(size, "the gap of a session").to_milliseconds())

    def _gap_ms(self, element: T) -> int:
        return self.gap_ms

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.gap_ms})"


class _DynamicGap(SessionWindows[T]):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not isinstance(session_window_time_gap_extractor, SessionWindowTimeGapExtractor):
            raise InvalidRequestError(
                "with_dynamic_gap takes a SessionWindowTimeGapExtractor, not "
                f"{session_window_time_gap_extractor!r}"
            )
        self._extractor = session_window_time_gap_extractor

    @classmethod
    def with_dynamic_gap(cls, extractor: SessionWindowTimeGapExtractor) -> Self:
        """Sessions whose gap the extractor gives for each element."""
        return cls(extractor)

    def _gap_ms(self, element: T) -> int:
        gap = self._extractor.extract(element)
        if gap <= 0:
            raise InvalidRequestError(
                f"{type(self._extractor).__name__}.extract returned a gap of {gap} ms: return a "
                "positive number of milliseconds"
            )
        return gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._extractor).__name__})"


class DynamicEventTimeSessionWindows(_DynamicGap[T], _EventTimeSessions[T]):
    """Sessions by the timestamps of the elements, with a gap for each element."""


class DynamicProcessingTimeSessionWindows(_DynamicGap[T], _ProcessingTimeSessions[T]):
    """Sessions by the times of the batches that read the elements, with a gap for each element."""


class EventTimeSessionWindows(_FixedGap[T], _EventTimeSessions[T]):
    """Sessions by the timestamps of the elements."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicEventTimeSessionWindows[T]:
        """Sessions whose gap the extractor gives for each element."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap[T], _ProcessingTimeSessions[T]):
    """Sessions by the times of the batches that read the elements."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor,
    ) -> DynamicProcessingTimeSessionWindows[T]:
        """Sessions whose gap the extractor gives for each element."""
        return DynamicProcessingTimeSessionWindows(extractor)
