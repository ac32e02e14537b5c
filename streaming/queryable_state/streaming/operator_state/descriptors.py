"""Descriptors of operator state as a task registers them, made from those that users pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from queryable_state.streaming.descriptors import ListStateDescriptor, MapStateDescriptor
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.operator_state import SUBTASK_TYPE

if TYPE_CHECKING:
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.v1.registration_pb2 import StateRegistration

_Descriptor = TypeVar("_Descriptor", bound="StateDescriptor")

DEFAULT_STATE_NAME = "_default_"
"""Name of the operator state of a `ListCheckpointed` function."""


class OperatorListDescriptor(ListStateDescriptor):
    """Descriptor of a list whose elements are dealt out at another parallelism."""

    kind = StateKind.OPERATOR_LIST

    @classmethod
    def of(cls, descriptor: ListStateDescriptor) -> Self:
        """The operator state of a user's descriptor; InvalidRequestError for another kind."""
        _check(descriptor, ListStateDescriptor)
        return _with_properties(cls.__new__(cls), descriptor)

    def to_registration(self, **operator: Any) -> StateRegistration:
        return super().to_registration(**operator | {"key_type": SUBTASK_TYPE})


class UnionListDescriptor(OperatorListDescriptor):
    """Descriptor of a list of which each subtask gets all elements at another parallelism."""

    kind = StateKind.OPERATOR_UNION


class BroadcastStateDescriptor(MapStateDescriptor):
    """Descriptor of a broadcast state."""

    kind = StateKind.BROADCAST

    @classmethod
    def of(cls, descriptor: MapStateDescriptor) -> Self:
        """The operator state of a user's descriptor; InvalidRequestError for another kind."""
        _check(descriptor, MapStateDescriptor)
        return _with_properties(cls.__new__(cls), descriptor)

    def to_registration(self, **operator: Any) -> StateRegistration:
        return super().to_registration(**operator | {"key_type": SUBTASK_TYPE})


def _check(descriptor: object, expected: type[StateDescriptor]) -> None:
    if not isinstance(descriptor, expected):
        raise InvalidRequestError(
            f"operator state: expected a {expected.__name__}, not {descriptor!r}"
        )
    if descriptor.ttl_config is not None:
        raise InvalidRequestError(
            f"operator state {descriptor.name!r}: it cannot have a time to live, only keyed state "
            "can: remove enable_time_to_live, or call clear() when elements are old",
            reason=Reason.UNSUPPORTED,
        )


def _with_properties(made: _Descriptor, descriptor: StateDescriptor) -> _Descriptor:
    """Takes over all properties of the user's descriptor; only the kind differs."""
    vars(made).update(vars(descriptor))
    return made
