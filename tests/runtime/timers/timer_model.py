"""A function whose elements and timers script its timers, and a brute-force model of it.

The model knows nothing of pages, chunks, versions or subtasks: it has the set of all pending timers
of each key and looks through it for the first one that is due.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from queryable_state.streaming import KeyedProcessFunction, Types, ValueStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from queryable_state.streaming import RuntimeContext, TimerService
    from queryable_state.streaming.functions import Context, OnTimerContext

OUTPUT = "key STRING, what STRING, at BIGINT, seen BIGINT, watermark BIGINT, now BIGINT"
_NO_WATERMARK = -(1 << 63)


class Call(NamedTuple):
    """A call of the timer service."""

    is_register: bool
    is_event: bool
    at: int

    def make(self, service: TimerService) -> None:
        """Makes the call."""
        verb = "register" if self.is_register else "delete"
        getattr(service, f"{verb}_{'event' if self.is_event else 'processing'}_time_timer")(self.at)


class ScriptedFunction(KeyedProcessFunction):
    """Makes the calls of each element; the n-th timer of a key makes those of the n-th step.

    In a step the times are relative to the timer's.
    """

    def __init__(self, steps: Sequence[Sequence[Call]]) -> None:
        self.steps = steps

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def process_element(self, value: Any, ctx: Context) -> Iterator[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        for call in json.loads(value.calls):
            Call(*call).make(ctx.timer_service())
        yield self._output("element", 0, ctx)

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterator[Any]:
        fired = self.fired.value() or 0
        self.fired.update(fired + 1)
        self.seen.update((self.seen.value() or 0) + 1)
        for call in self.steps[fired] if fired < len(self.steps) else ():
            call._replace(at=timestamp + call.at).make(ctx.timer_service())
        yield self._output(ctx.time_domain().name, timestamp, ctx)

    def _output(self, what: str, at: int, ctx: Context) -> tuple[Any, ...]:
        now = ctx.timer_service().current_processing_time()
        return ctx.get_current_key(), what, at, self.seen.value(), ctx.current_watermark(), now


def row(key: str, calls: Iterable[Call]) -> tuple[str, str]:
    """An element: `key STRING, calls STRING`."""
    return key, json.dumps(list(calls))


@dataclass
class _Key:
    pending: set[tuple[bool, int]] = field(default_factory=set)
    """(is event time, timestamp)"""
    seen: int = 0
    fired: int = 0

    def call(self, call: Call) -> None:
        timer = (call.is_event, call.at)
        (self.pending.add if call.is_register else self.pending.discard)(timer)


class TimerModel:
    """All keys, their timers and counts."""

    def __init__(self, steps: Sequence[Sequence[Call]]) -> None:
        self._steps = steps
        self.keys: dict[str, _Key] = defaultdict(_Key)

    def run(
        self, rows: Iterable[tuple[str, Sequence[Call]]], now: int, watermark: int
    ) -> dict[str, list[tuple[Any, ...]]]:
        """The outputs of a batch by key, in order; watermark 0: none."""
        outputs: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        shown = watermark or _NO_WATERMARK
        for key, state in list(self.keys.items()):
            while True:
                due = [
                    (is_event, at)
                    for is_event, at in state.pending
                    if (watermark != 0 and at <= watermark if is_event else at <= now)
                ]
                if not due:
                    break
                is_event, at = min(due)
                state.pending.remove((is_event, at))
                state.seen += 1
                state.fired += 1
                what = "EVENT_TIME" if is_event else "PROCESSING_TIME"
                outputs[key].append((key, what, at, state.seen, shown, now))
                if state.fired <= len(self._steps):
                    for call in self._steps[state.fired - 1]:
                        state.call(call._replace(at=at + call.at))
        for key, calls in rows:
            state = self.keys[key]
            state.seen += 1
            for call in calls:
                state.call(call)
            outputs[key].append((key, "element", 0, state.seen, shown, now))
        return outputs

    def pending(self) -> set[tuple[str, bool, int]]:
        """Key, is event time, and timestamp of all pending timers."""
        return {(key, *timer) for key, state in self.keys.items() for timer in state.pending}
