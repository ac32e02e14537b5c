"""Trigger that fires at a number of elements."""

from __future__ import annotations

from typing import Any

from queryable_state.streaming.functions import ReducingStateDescriptor
from queryable_state.streaming.windows.trigger import Trigger, TriggerResult
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_variables import T
from queryable_state.wire.schema.types import Types


def _added(one: int, other: int) -> int:
    return one + other


def whole_number(number: object, what: str) -> int:
    """The number; raises InvalidRequestError, naming `what`, unless it is a positive int."""
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        raise InvalidRequestError(f"{what} is a positive number of elements, not {number!r}")
    return number


class CountTrigger(Trigger[T, Any]):
    """Fires when a window has got this number of elements since it last fired.

    The elements stay: wrap it in a `PurgingTrigger` to drop them."""

    def __init__(self, window_size: int) -> None:
        self._window_size = whole_number(window_size, "the size of a CountTrigger")
        self._count_state_descriptor = ReducingStateDescriptor("count", _added, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger[T]:
        """A trigger that fires at this number of elements."""
        return CountTrigger(window_size)

    def on_element(
        self, element: T, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count_state_descriptor)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(
        self, time: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count_state_descriptor)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count_state_descriptor).clear()
