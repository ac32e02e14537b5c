"""Descriptor of the timers of an operator, which are one of its states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from queryable_state.streaming.state_descriptor import StateDescriptor
from queryable_state.v1.registration_pb2 import StateKind

if TYPE_CHECKING:
    from queryable_state.v1.registration_pb2 import StateRegistration

TIMERS_NAME: Final = "timers"
"""Name of the state within its operator. It is queryable as `<operator uid>.timers`."""


class TimerDescriptor(StateDescriptor):
    """Descriptor of the pending timers of an operator. A timer has no value."""

    kind = StateKind.TIMER

    def __init__(self) -> None:
        super().__init__(TIMERS_NAME, None)

    def to_registration(self, *, operator_uid: str, **operator: Any) -> StateRegistration:
        registration = super().to_registration(operator_uid=operator_uid, **operator)
        registration.queryable_name = f"{operator_uid}.{TIMERS_NAME}"
        return registration

    def _shown_type(self) -> str:
        return "timers"
