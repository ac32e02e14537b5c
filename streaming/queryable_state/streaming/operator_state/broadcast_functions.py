"""Functions of a stream that is connected with a broadcast stream, and their contexts.

A batch's broadcast elements are processed before its other elements, on every subtask and in the
same order. Only they may write broadcast state, so it stays equal on all subtasks. Timers fire
before all elements of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from queryable_state.streaming.functions import Function
from queryable_state.streaming.state import State
from queryable_state.streaming.stateless.timers import TimedFunction
from queryable_state.wire.schema.type_variables import IN1, IN2, OUT, K

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.streaming.descriptors import MapStateDescriptor, StateDescriptor
    from queryable_state.streaming.operator_state.broadcast_state import (
        BroadcastState,
        ReadOnlyBroadcastState,
    )
    from queryable_state.streaming.stateless.timers import TimeDomain, TimerService

S = TypeVar("S", bound=State)


class KeyedStateFunction(ABC, Generic[S]):
    """A function that `apply_to_keyed_state` calls for each key."""

    @abstractmethod
    def process(self, key: Any, state: S) -> None:
        """Reads and writes the state of one key."""


class BaseContext(ABC):
    """Timestamp of the element, and clocks of the batch."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time of the element in milliseconds since the epoch; None if it has none."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Processing time of the batch in milliseconds since the epoch; a replay has the same."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Event-time watermark in milliseconds since the epoch; -2**63 before the first one."""


class BroadcastReadOnlyContext(BaseContext):
    """Context of an element of the stream that is not broadcast."""

    @abstractmethod
    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor
    ) -> ReadOnlyBroadcastState[Any, Any]:
        """The broadcast state of a descriptor that was passed to `broadcast(...)`."""


class BroadcastContext(BaseContext):
    """Context of a broadcast element."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The broadcast state of a descriptor that was passed to `broadcast(...)`."""


class KeyedBroadcastReadOnlyContext(BroadcastReadOnlyContext):
    """Context of an element of the keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """Key of the element: a bare value, or a tuple if there are several key columns."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """The clocks, and the timers of the key."""


class KeyedBroadcastOnTimerContext(KeyedBroadcastReadOnlyContext):
    """Context of a timer that fires: `get_current_key` is its key, `timestamp` its timestamp."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """The clock of the timer."""


class KeyedBroadcastContext(BroadcastContext):
    """Context of a broadcast element beside a keyed stream."""

    @abstractmethod
    def apply_to_keyed_state(
        self,
        state_descriptor: StateDescriptor,
        function: KeyedStateFunction[Any] | Callable[[Any, Any], None],
    ) -> None:
        """Calls `function(key, state)` for each key of this subtask that has this state.

        These are the keys with state of earlier batches and those to which this task has written
        before, without those it has cleared. Each key is visited once, in no particular order; its
        state, and the operator's other keyed states, can be read and written in the call. All
        subtasks together visit all keys. The keys visited stay in the task's memory to its end.
        """


_BaseContext: TypeAlias = BaseContext
_ReadOnlyContext: TypeAlias = BroadcastReadOnlyContext
_Context: TypeAlias = BroadcastContext
_KeyedReadOnlyContext: TypeAlias = KeyedBroadcastReadOnlyContext
_KeyedContext: TypeAlias = KeyedBroadcastContext
_OnTimerContext: TypeAlias = KeyedBroadcastOnTimerContext


class BaseBroadcastProcessFunction(Function):
    """Base of the functions of a stream that is connected with a broadcast stream."""

    BaseContext: TypeAlias = _BaseContext
    Context: TypeAlias = _Context
    ReadOnlyContext: TypeAlias = _ReadOnlyContext


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A function of a stream without keys that is connected with a broadcast stream.

    Elements, broadcast elements and outputs may be named for type checkers:
    `BroadcastProcessFunction[Row, str, Row]`.
    """

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastReadOnlyContext) -> Iterable[OUT] | None:
        """Processes one element; yields or returns the outputs, None for no output."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastContext) -> Iterable[OUT] | None:
        """Processes one broadcast element, on every subtask; returns outputs of this subtask."""


class KeyedBroadcastProcessFunction(
    TimedFunction, BaseBroadcastProcessFunction, Generic[K, IN1, IN2, OUT]
):
    """A function of a keyed stream that is connected with a broadcast stream.

    Key, elements, broadcast elements and outputs may be named for type checkers:
    `KeyedBroadcastProcessFunction[str, Row, str, Row]`.

    It requests its keyed states in `open`. A broadcast element has no key: it reaches keyed state
    only through `apply_to_keyed_state`.
    """

    Context: TypeAlias = _KeyedContext
    ReadOnlyContext: TypeAlias = _KeyedReadOnlyContext
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: KeyedBroadcastReadOnlyContext
    ) -> Iterable[OUT] | None:
        """Processes one element; yields or returns the outputs, None for no output."""

    @abstractmethod
    def process_broadcast_element(
        self, value: IN2, ctx: KeyedBroadcastContext
    ) -> Iterable[OUT] | None:
        """Processes one broadcast element, on every subtask; returns outputs of this subtask."""
