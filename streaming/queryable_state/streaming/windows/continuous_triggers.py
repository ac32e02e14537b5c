"""Triggers that fire at each interval of time within a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.config.durations import time_of
from queryable_state.streaming.functions import ReducingStateDescriptor
from queryable_state.streaming.windows.trigger import Trigger, TriggerResult
from queryable_state.streaming.windows.window import TimeWindow
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_variables import T
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from datetime import timedelta

    from queryable_state.streaming.config.durations import Time
    from queryable_state.streaming.windows.window import Window


def _first(one: int, other: int) -> int:
    return min(one, other)


def _next_fire_time() -> ReducingStateDescriptor[int]:
    """State of the next time to fire; of merged windows the earliest."""
    return ReducingStateDescriptor("fire-time", _first, Types.LONG())


def _interval_ms(interval: object, name: str) -> int:
    if not isinstance(interval, int) or isinstance(interval, bool) or interval <= 0:
        raise InvalidRequestError(
            f"the interval of a {name} is a positive number of milliseconds, not {interval!r}"
        )
    return interval


class ContinuousEventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires each time the watermark passes a multiple of the interval, and at the window's end.

    The times within a window begin with the multiple behind its first element; after a pause of
    the watermark each of them fires."""

    def __init__(self, interval: int) -> None:
        """`interval` in milliseconds."""
        self.interval = _interval_ms(interval, "ContinuousEventTimeTrigger")
        self.state_desc = _next_fire_time()

    @staticmethod
    def of(interval: Time | timedelta) -> ContinuousEventTimeTrigger:
        """A trigger of this interval."""
        return ContinuousEventTimeTrigger(time_of(interval, "the interval").to_milliseconds())

    def on_element(
        self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        if ctx.get_partitioned_state(self.state_desc).get() is None:
            self._register_next(timestamp - timestamp % self.interval, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        next_time = ctx.get_partitioned_state(self.state_desc)
        if next_time.get() != time:
            return TriggerResult.CONTINUE
        next_time.clear()
        self._register_next(time, window, ctx)
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_time = ctx.get_partitioned_state(self.state_desc).get()
        if next_time is not None:
            ctx.register_event_time_timer(next_time)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        next_time = ctx.get_partitioned_state(self.state_desc)
        time = next_time.get()
        if time is not None:
            ctx.delete_event_time_timer(time)
            next_time.clear()

    def _register_next(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        following = min(time + self.interval, window.max_timestamp())
        ctx.get_partitioned_state(self.state_desc).add(following)
        ctx.register_event_time_timer(following)


class ContinuousProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires each time the processing time passes a multiple of the interval, and no later than the
    window's end."""

    def __init__(self, interval: int) -> None:
        """`interval` in milliseconds."""
        self.interval = _interval_ms(interval, "ContinuousProcessingTimeTrigger")
        self.state_desc = _next_fire_time()

    @staticmethod
    def of(interval: Time | timedelta) -> ContinuousProcessingTimeTrigger:
        """A trigger of this interval."""
        return ContinuousProcessingTimeTrigger(time_of(interval, "the interval").to_milliseconds())

    def on_element(
        self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if ctx.get_partitioned_state(self.state_desc).get() is None:
            now = ctx.get_current_processing_time()
            self._register_next(now - now % self.interval, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        next_time = ctx.get_partitioned_state(self.state_desc)
        if next_time.get() != time:
            return TriggerResult.CONTINUE
        next_time.clear()
        self._register_next(time, window, ctx)
        return TriggerResult.FIRE

    def on_event_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_time = ctx.get_partitioned_state(self.state_desc).get()
        if next_time is not None:
            ctx.register_processing_time_timer(next_time)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        next_time = ctx.get_partitioned_state(self.state_desc)
        time = next_time.get()
        if time is not None:
            ctx.delete_processing_time_timer(time)
            next_time.clear()

    def _register_next(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        following = min(time + self.interval, window.max_timestamp())
        if following <= time:
            return
        ctx.get_partitioned_state(self.state_desc).add(following)
        ctx.register_processing_time_timer(following)
