"""Construction of the states of an answer, by the kind of the queried state."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.states import (
    AggregatingState,
    KvState,
    ListState,
    MapState,
    RecordsState,
    ReducingState,
    RefusedContext,
    ValueState,
)
from queryable_state.client._reading.timed.pending_timers import PendingTimers
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client._reading.states import DecodeContext


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
    registration_pb2.TIMER: PendingTimers,
}


def scanned_state(
    kind: registration_pb2.StateKind.ValueType,
    scanned: query_pb2.ScannedKey,
    context: DecodeContext,
) -> KvState:
    """Returns the state of one scanned key; if it has an error, its methods raise the error."""
    if scanned.HasField("error"):
        refusal = QueryableStateError.from_proto(scanned.error)
        return STATE_TYPES[kind](b"", RefusedContext(refusal, context))
    return state_of(kind, scanned.records, context)


def state_of(
    kind: registration_pb2.StateKind.ValueType, records: query_pb2.Records, context: DecodeContext
) -> KvState:
    """Returns the state with these records, at least one, as a scan returns them."""
    state_type = STATE_TYPES[kind]
    if issubclass(state_type, RecordsState):
        return state_type(records.SerializeToString(), context)
    if not records.values:
        raise CorruptDataError(f"a server returned a {state_type.kind} without a record")
    return state_type(records.values[0], context)
