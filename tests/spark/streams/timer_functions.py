"""User functions with timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming import (
    KeyedProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import TimerService

FIRED = "key STRING, domain STRING, at BIGINT, seen BIGINT, watermark BIGINT, now BIGINT"


class _Silent(KeyedProcessFunction):
    """Emits a row, with all it can see, when a key was silent for its time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("alarm", Types.LONG())
        descriptor.set_queryable("alarms")
        self.alarm = runtime_context.get_state(descriptor)
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterator[tuple[Any, ...]]:
        service = ctx.timer_service()
        yield (
            ctx.get_current_key(),
            ctx.time_domain().name,
            timestamp,
            self.seen.value(),
            service.current_watermark(),
            service.current_processing_time(),
        )
        self.alarm.clear()

    def _seen(self, service: TimerService, alarm: int) -> int | None:
        """Counts an element and moves the alarm; returns the one before."""
        before = self.alarm.value()
        self.alarm.update(alarm)
        self.seen.update((self.seen.value() or 0) + 1)
        return before


class SilentInEventTime(_Silent):
    """Silent for 10 seconds of event time."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        service, time = ctx.timer_service(), ctx.timestamp()
        assert time is not None
        before = self._seen(service, time + 10_000)
        if before is not None:
            service.delete_event_time_timer(before)
        service.register_event_time_timer(time + 10_000)


class SilentInProcessingTime(_Silent):
    """Silent for 100 milliseconds of processing time."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        service = ctx.timer_service()
        alarm = service.current_processing_time() + 100
        before = self._seen(service, alarm)
        if before is not None:
            service.delete_processing_time_timer(before)
        service.register_processing_time_timer(alarm)
