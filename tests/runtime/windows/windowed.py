"""Operators over windows for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    Time,
    TumblingEventTimeWindows,
)
from queryable_state.streaming.testing import WindowedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterable

ROW = "k STRING, ts BIGINT, v BIGINT"
RESULT = "k STRING, start BIGINT, stop BIGINT, v BIGINT"
TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(10))


class Summed(ProcessWindowFunction):
    """Emits key, start, end and the sum of the elements."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        yield key, window.start, window.end, sum(each.v for each in elements)


def harness(assigner: Any, operator: Any, **options: Any) -> WindowedOperatorHarness:
    return WindowedOperatorHarness(assigner, operator, ROW, key_by="k", event_time="ts", **options)


def summed(assigner: Any, **options: Any) -> WindowedOperatorHarness:
    return harness(assigner, lambda windowed: windowed.process(Summed(), RESULT), **options)


def plain(outputs: Iterable[Any]) -> list[tuple[Any, ...]]:
    return sorted(tuple(each) for each in outputs)
