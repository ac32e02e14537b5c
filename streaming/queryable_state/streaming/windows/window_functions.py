"""Functions of windows, called when a window fires, and their contexts.

`elements` are those of the window in the order in which they were added; of a stream that is
reduced or aggregated, the only element is the result. A function returns or yields its outputs;
they have the window's last timestamp as event time.

State: `context.global_state()` is that of the key, requested from the runtime context in `open`;
`context.window_state()` is that of the key and window, of descriptors that are attributes of the
function. Both are known before the first element. Windows that are merged have no state of their
own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queryable_state.streaming.functions import Function
from queryable_state.wire.schema.type_variables import IN, OUT, K, W

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.operator_state.checkpointed import KeyedStateStore

W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, K, W]):
    """A function of the elements of a key's window."""

    @abstractmethod
    def apply(self, key: K, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """The outputs for a window that fires."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """A function of the elements of a window of a stream without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """The outputs for a window that fires."""


class ProcessWindowFunction(Function, Generic[IN, OUT, K, W]):
    """A function of the elements of a key's window, with state and clocks.

    It emits to a side output with `yield tag, value`.
    """

    class Context(ABC, Generic[W2]):
        """Window, clocks and state of a call. Times are milliseconds since the epoch."""

        @abstractmethod
        def window(self) -> W2:
            """The window that fires or is cleared."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The time of the batch; a replay has the same."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The watermark; -2**63 before the first."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of the key and window; `clear` of the function must clear it."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State of the key."""

    @abstractmethod
    def process(self, key: K, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None:
        """The outputs for a window that fires."""

    def clear(self, context: Context[W]) -> None:
        """Clears the window's state when the window ends for good."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """A function of the elements of a window of a stream without keys, with state."""

    class Context(ABC, Generic[W2]):
        """Context of one call: its window and state."""

        @abstractmethod
        def window(self) -> W2:
            """The window that fires or is cleared."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """State of the window; `clear` of the function must clear it."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """State of all windows together."""

    @abstractmethod
    def process(self, context: Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None:
        """The outputs for a window that fires."""

    def clear(self, context: Context[W]) -> None:
        """Clears the window's state when the window ends for good."""


AnyWindowFunction = (
    WindowFunction[Any, Any, Any, Any]
    | AllWindowFunction[Any, Any, Any]
    | ProcessWindowFunction[Any, Any, Any, Any]
    | ProcessAllWindowFunction[Any, Any, Any]
)
