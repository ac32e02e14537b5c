"""Contexts of functions without state: for `open`, and for each element."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

from queryable_state.streaming.runtime.operators.context import DeclaringContext
from queryable_state.streaming.stateless.functions import ElementContext
from queryable_state.streaming.stateless.timers import TimerService
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.columns.event_time import CurrentTime


class StatelessContext(DeclaringContext):
    """A `RuntimeContext` that refuses keyed states."""

    def declared(self, descriptor: Any, *_: Any, **__: Any) -> NoReturn:
        raise InvalidRequestError(
            f"operator {self._name!r}: {descriptor!r} is a keyed state, but the stream has no "
            "keys: use key_by(...) before it",
            reason=Reason.INVALID_REQUEST,
        )


class ChainRuntimeContext(StatelessContext):
    """The `RuntimeContext` of a chain, whose tasks reach no state server."""

    def get_metrics_group(self) -> NoReturn:
        raise InvalidRequestError(
            f"operator {self._name!r}: get_metrics_group(): metrics come out at the state server "
            "of a stateful operator, and this one has no state: count in a function behind "
            "key_by(...)",
            reason=Reason.UNSUPPORTED,
        )


class ChainContext(ElementContext):
    """The context of all elements of a chain's task; one object, which moves with the elements."""

    def __init__(self, time: CurrentTime) -> None:
        self.stream = 0
        """The stream of the current element."""
        self.time = time
        self._timers = _Clocks()

    def timestamp(self) -> int | None:
        return self.time.ms

    def timer_service(self) -> TimerService:
        return self._timers


class _Clocks(TimerService):
    def current_processing_time(self) -> int:
        return time.time_ns() // 1_000_000

    def current_watermark(self) -> NoReturn:
        raise InvalidRequestError(
            "ctx.timer_service().current_watermark(): only stateful operators know the watermark: "
            "use key_by(...) and a KeyedProcessFunction",
            reason=Reason.UNSUPPORTED,
        )

    def register_processing_time_timer(self, timestamp: int) -> NoReturn:
        raise _refused("register_processing_time_timer")

    def register_event_time_timer(self, timestamp: int) -> NoReturn:
        raise _refused("register_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> NoReturn:
        raise _refused("delete_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> NoReturn:
        raise _refused("delete_event_time_timer")


def _refused(method: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"ctx.timer_service().{method}(): timers are only supported on keyed streams: use "
        "key_by(...) and a KeyedProcessFunction with on_timer",
        reason=Reason.UNSUPPORTED,
    )
