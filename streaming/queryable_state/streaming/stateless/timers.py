"""Timer service of an element, and the hook that fired timers call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class TimeDomain(Enum):
    """The clock of a timer."""

    EVENT_TIME = 0
    """The watermark."""
    PROCESSING_TIME = 1
    """The time of the batch."""


class TimerService(ABC):
    """The clocks of the task, and the timers of the current key.

    A timer is identified by its clock, its timestamp and its key: registering it again, or deleting
    one that is not pending, has no effect. Timestamps are milliseconds since the epoch. A timer
    fires at the start of the first batch at which its clock has reached its timestamp, before the
    elements. So one that an element registers fires in the next batch at the earliest, also if its
    timestamp has passed.

    Only keyed functions have timers, and only with an `on_timer` method: otherwise registering and
    deleting raise InvalidRequestError, also for a timestamp that is not a 64-bit integer.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Processing time in milliseconds since the epoch.

        In a keyed function it is the time of the batch, the same when a batch is replayed.
        """

    @abstractmethod
    def current_watermark(self) -> int:
        """Event-time watermark in milliseconds since the epoch; -2**63 before the first one."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer that fires when the processing time reaches the timestamp."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer that fires when the watermark reaches the timestamp."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes the processing-time timer with this timestamp."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes the event-time timer with this timestamp."""


class TimedFunction:
    """Base of the functions that have timers.

    A function has timers if its class overrides `on_timer`: they are a state of its operator, named
    `timers`, so no other state of it may have this name.
    """

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Called when a timer of the key fires; yields or returns outputs, None for no output.

        `timestamp` is that of the timer, in milliseconds since the epoch, and `ctx` the
        `OnTimerContext` of the function's class. All timers of a batch that are due fire before its
        elements: first those of processing time, then those of event time, each ordered by
        timestamp, then key. Timers see the state that the elements of earlier batches and the
        timers before them have left. A due timer that is registered here fires in the same batch,
        in its place in this order.

        Outputs have the timestamp of an event-time timer; those of a processing-time timer have
        none.
        """


def has_timers(function: object) -> bool:
    """True if the class of a function overrides `on_timer`."""
    own = getattr(type(function), "on_timer", None)
    return (
        isinstance(function, TimedFunction) and callable(own) and own is not TimedFunction.on_timer
    )
