"""Window assigners: the interface between the elements of a stream and their windows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.wire.schema.type_variables import T, W

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from queryable_state.streaming.functions import RuntimeContext
    from queryable_state.streaming.windows.trigger import Trigger
    from queryable_state.wire.schema.type_serializer import TypeSerializer

W2 = TypeVar("W2")


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns windows to elements.

    The windows of a chunk of elements are assigned before the first of them is added to a window.
    Every task has its own copy. State that an assigner requests from the runtime context belongs
    to the key; its descriptors are attributes of the assigner.
    """

    class WindowAssignerContext(ABC):
        """Clock and state of the element to which windows are assigned."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The time of the batch in milliseconds since the epoch; a replay has the same."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """State of the element's key, and name and place of the task."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of an element.

        `timestamp` is in milliseconds since the epoch; -2**63 if the element has none.
        """

    @abstractmethod
    def get_default_trigger(self, env: object) -> Trigger[T, W]:
        """The trigger of a windowed stream for which none is set. `env` is not used."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """The class of the windows: a `TimeWindowSerializer`, `CountWindowSerializer` or
        `GlobalWindowSerializer`."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """True if windows end by the watermark: then elements behind it are late."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner of time windows that are merged, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the windows to merge."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Merges windows into `merge_result`, a window that covers them."""

    @abstractmethod
    def merge_windows(
        self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]
    ) -> None:
        """Calls `callback.merge` once for each group of windows that are to be one."""
