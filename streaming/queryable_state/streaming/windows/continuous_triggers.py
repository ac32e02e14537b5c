"""Triggers that fire at each interval of time within a window."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Self

from queryable_state.streaming.config.durations import time_of
from queryable_state.streaming.functions import ReducingStateDescriptor
from queryable_state.streaming.windows.trigger import Trigger, TriggerResult
from queryable_state.streaming.windows.window import MAX_LONG, TimeWindow
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_variables import T
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from datetime import timedelta

    from queryable_state.streaming.config.durations import Time
    from queryable_state.streaming.windows.window import Window


class _ContinuousTrigger(Trigger[T, TimeWindow]):
    """Fires at each interval of one clock; `state_desc` is the next time to fire."""

    def __init__(self, interval: int) -> None:
        """`interval` in milliseconds."""
        self.interval = _interval_ms(interval, type(self).__name__)
        self.state_desc = ReducingStateDescriptor("fire-time", _earliest, Types.LONG())

    @classmethod
    def of(cls, interval: Time | timedelta) -> Self:
        """Creates a trigger that fires after each interval."""
        return cls(time_of(interval, "the interval").to_milliseconds())

    def on_processing_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

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
            self._register(next_time, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        next_time = ctx.get_partitioned_state(self.state_desc)
        time = next_time.get()
        if time is not None:
            self._delete(time, ctx)
            next_time.clear()

    def _begin(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        """Registers the first time behind the multiple of the interval, unless there is one."""
        if ctx.get_partitioned_state(self.state_desc).get() is None:
            self._register_next(time - time % self.interval, window, ctx)

    def _fire(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires if it is the time, and registers the next."""
        next_time = ctx.get_partitioned_state(self.state_desc)
        if next_time.get() != time:
            return TriggerResult.CONTINUE
        next_time.clear()
        self._register_next(time, window, ctx)
        return TriggerResult.FIRE

    def _register_next(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        following = min(time + self.interval, window.max_timestamp())
        if following > time:
            ctx.get_partitioned_state(self.state_desc).add(following)
            self._register(following, ctx)

    @abstractmethod
    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None: ...

    @abstractmethod
    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None: ...


class ContinuousEventTimeTrigger(_ContinuousTrigger[T]):
    """Fires each time the watermark passes a multiple of the interval, and at the window's end.

    The times within a window begin with the multiple behind its first element; after a pause of
    the watermark each of them fires. At the end of bounded input the global window fires at its
    next time and at its end."""

    def on_element(
        self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_event_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        return self._fire(time, window, ctx)

    def _register_next(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> None:
        # At the end of the input a window without end has intervals without number.
        if window.max_timestamp() != MAX_LONG or ctx.get_current_watermark() != MAX_LONG:
            super()._register_next(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(time)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger[T]):
    """Fires each time the processing time passes a multiple of the interval, and no later than the
    window's end."""

    def on_element(
        self, element: T, timestamp: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: Window, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return self._fire(time, window, ctx)

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)


def _earliest(one: int, other: int) -> int:
    return min(one, other)


def _interval_ms(interval: object, name: str) -> int:
    if not isinstance(interval, int) or isinstance(interval, bool) or interval <= 0:
        raise InvalidRequestError(
            f"the interval of a {name} is a positive number of milliseconds, not {interval!r}"
        )
    return interval
