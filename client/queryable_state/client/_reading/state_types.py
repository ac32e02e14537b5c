"""Construction of the states of an answer, by the kind of the queried state."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.states import (
    AggregatingState,
    KvState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client._reading.decode_context import DecodeContext


def states_of(answer: Callable[..., Any], values: list[bytes], context: DecodeContext) -> list[Any]:
    """Returns `answer` of each value; decodes single-value states in one pass if possible."""
    decoded = None
    if answer in _SINGLE_VALUE_STATES:
        decoded = context.codecs.value.decode_all(values)
    if decoded is None:
        return list(map(answer, values, repeat(context)))
    return list(map(answer, values, repeat(context), decoded))


_SINGLE_VALUE_STATES: frozenset[object] = frozenset((ValueState, ReducingState, AggregatingState))

STATE_TYPES: dict[registration_pb2.StateKind.ValueType, type[KvState]] = {
    registration_pb2.VALUE: ValueState,
    registration_pb2.LIST: ListState,
    registration_pb2.MAP: MapState,
    registration_pb2.REDUCING: ReducingState,
    registration_pb2.AGGREGATING: AggregatingState,
    registration_pb2.OPERATOR_LIST: ListState,
    registration_pb2.OPERATOR_UNION: ListState,
    registration_pb2.BROADCAST: MapState,
}
