"""The assigner of one window to all elements of a key, and its trigger, which never fires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.windows.assigner import WindowAssigner
from queryable_state.streaming.windows.serializers import GlobalWindowSerializer
from queryable_state.streaming.windows.trigger import Trigger, TriggerResult
from queryable_state.streaming.windows.window import GlobalWindow
from queryable_state.wire.schema.type_variables import T

if TYPE_CHECKING:
    from collections.abc import Collection


class NeverTrigger(Trigger[T, GlobalWindow]):
    """Never fires."""

    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(
        self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(
        self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: Trigger.OnMergeContext) -> None:
        """Does nothing: there is nothing to merge."""

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        """Does nothing: there is no state."""


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """Puts all elements of a key into one window, which fires only with a trigger of the stream's
    own and ends never."""

    @staticmethod
    def create() -> GlobalWindows[T]:
        """A new assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return (GlobalWindow.get(),)

    def get_default_trigger(self, env: object) -> Trigger[T, GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> GlobalWindowSerializer:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
