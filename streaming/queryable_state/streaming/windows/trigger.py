"""Triggers: when the function of a window is called, and when the window's elements are dropped.

Per element and window the order is: the element is added to the window, `on_element`, the function
if the result fires, the drop of the elements if it purges. Timers fire at the start of a batch,
before its elements: `on_processing_time` or `on_event_time`, then function and drop likewise.
`clear` is called when the window ends for good: at its last timestamp plus the allowed lateness.

A trigger keeps nothing in attributes: one object serves all keys and windows of a task, and each
batch has a new copy. State is requested by descriptors that are attributes of the trigger, so that
all of them are known before the first element.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic

from queryable_state.wire.schema.type_variables import T, W

if TYPE_CHECKING:
    from queryable_state.streaming.state_descriptor import StateDescriptor


class TriggerResult(Enum):
    """Action on a window. The function is not called for a window without elements."""

    CONTINUE = (False, False)
    """Nothing."""
    FIRE_AND_PURGE = (True, True)
    """The function is called, then the elements are dropped."""
    FIRE = (True, False)
    """The function is called; the elements stay."""
    PURGE = (False, True)
    """The elements are dropped."""

    def is_fire(self) -> bool:
        """True if the function is called."""
        return self.value[0]

    def is_purge(self) -> bool:
        """True if the elements are dropped."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when the function of a window is called, and when its elements are dropped."""

    class TriggerContext(ABC):
        """Clocks, timers and state of one key and window. Times are milliseconds since the
        epoch."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The time of the batch; a replay has the same."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The watermark; -2**63 before the first."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Has `on_processing_time` called once the processing time has reached `time`."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Has `on_event_time` called once the watermark has reached `time`."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Deletes the timer of this time, if there is one."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Deletes the timer of this time, if there is one."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """The state of the key and window.

            Raises JobError if the descriptor is no attribute of the trigger.
            """

    class OnMergeContext(TriggerContext):
        """Context of `on_merge`."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merges the state of the merged windows into that of the new one.

            Raises InvalidRequestError unless it is list, reducing or aggregating state.
            """

    @abstractmethod
    def on_element(
        self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Called for each element after it was added to the window."""

    @abstractmethod
    def on_processing_time(
        self, time: int, window: W, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """Called when a processing-time timer of the window fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer of the window fires."""

    def can_merge(self) -> bool:
        """True if the windows may be merged; then `on_merge` must be right."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Called when windows have been merged into `window`, before `clear` of each of them."""

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Clears the state and deletes the timers that the trigger has for a window."""
