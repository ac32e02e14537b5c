"""Functions whose states count how often their timers fired, pickled by value."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from queryable_state.streaming import (
    KeyedProcessFunction,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import RuntimeContext
    from queryable_state.wire.schema.types import TypeInfo

ROWS = "k STRING, ts TIMESTAMP"
FIRED = "k STRING, at BIGINT, seen BIGINT"


class Fires(KeyedProcessFunction):
    """Counts the firings of each key: of event time, 100 ms behind each row, or of the processing
    times given, behind the batch."""

    def __init__(self, *wait_ms: int) -> None:
        self.wait_ms = wait_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        fires = ValueStateDescriptor("fires", Types.LONG())
        fires.set_queryable("fires")
        self.fires = runtime_context.get_state(fires)

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        if not self.wait_ms:
            timers.register_event_time_timer(ctx.timestamp() + 100)
        for wait_ms in self.wait_ms:
            timers.register_processing_time_timer(timers.current_processing_time() + wait_ms)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        fires = (self.fires.value() or 0) + 1
        self.fires.update(fires)
        yield ctx.get_current_key(), timestamp, fires


class Remembers(KeyedProcessFunction):
    """Keeps what each key has seen for an hour, and for a short time; timers say what is left."""

    def __init__(self, short_ms: int, kept: TypeInfo) -> None:
        self.short_ms = short_ms
        self.kept = kept

    def open(self, runtime_context: RuntimeContext) -> None:
        kept = {"long": 3_600_000, "short": self.short_ms}
        states = {}
        for name, ttl_ms in kept.items():
            descriptor = ValueStateDescriptor(name, self.kept)
            ttl = StateTtlConfig.new_builder(Time.milliseconds(ttl_ms)).build()
            descriptor.enable_time_to_live(ttl)
            descriptor.set_queryable(name)
            states[name] = runtime_context.get_state(descriptor)
        self.long, self.short = states["long"], states["short"]

    def process_element(self, value: Any, ctx: Any) -> None:
        self.long.update(1)
        self.short.update(1)
        timers = ctx.timer_service()
        timers.register_event_time_timer(ctx.timestamp() + 100)
        wait_ms = self.short_ms + 500
        timers.register_processing_time_timer(timers.current_processing_time() + wait_ms)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        seen = (self.long.value() or 0) * 10 + (self.short.value() or 0)
        yield f"{ctx.get_current_key()} {ctx.time_domain().name}", timestamp, seen


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
