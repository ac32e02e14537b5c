"""Clocks of an element; timers are refused."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NoReturn

from queryable_state.wire.errors import InvalidRequestError, Reason


class TimerService(ABC):
    """The clocks of the task. Registering or deleting a timer raises InvalidRequestError."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Processing time in milliseconds since the epoch.

        In a keyed function it is the time of the batch, the same when a batch is replayed.
        """

    @abstractmethod
    def current_watermark(self) -> int:
        """Event-time watermark in milliseconds since the epoch; -2**63 before the first one."""

    def register_processing_time_timer(self, timestamp: int) -> NoReturn:
        """Raises InvalidRequestError: timers are not supported."""
        raise _refused("register_processing_time_timer")

    def register_event_time_timer(self, timestamp: int) -> NoReturn:
        """Raises InvalidRequestError: timers are not supported."""
        raise _refused("register_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> NoReturn:
        """Raises InvalidRequestError: timers are not supported."""
        raise _refused("delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> NoReturn:
        """Raises InvalidRequestError: timers are not supported."""
        raise _refused("delete_event_time_timer")


def _refused(method: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"ctx.timer_service().{method}(): timers are not supported: when the next element of the "
        "key arrives, compare ctx.timestamp() or ctx.timer_service().current_watermark() with a "
        "time kept in state",
        reason=Reason.UNSUPPORTED,
    )
