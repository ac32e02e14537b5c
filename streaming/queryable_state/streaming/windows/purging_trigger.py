"""Trigger that drops the elements of a window whenever another trigger fires."""

from __future__ import annotations

from typing import Any

from queryable_state.streaming.windows.trigger import Trigger, TriggerResult
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_variables import T


class PurgingTrigger(Trigger[T, Any]):
    """Fires when the nested trigger fires, and purges the window then."""

    def __init__(self, nested_trigger: Trigger[T, Any]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise InvalidRequestError(f"PurgingTrigger.of takes a Trigger, not {nested_trigger!r}")
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, Any]) -> PurgingTrigger[T]:
        """Wraps a trigger, so that each firing also clears the window."""
        return PurgingTrigger(nested_trigger)

    def on_element(
        self, element: T, timestamp: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(
        self, time: int, window: Any, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
