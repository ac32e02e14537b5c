"""States of scanned keys, from the records that a scan returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.client._reading.decode_context import RefusedContext
from queryable_state.client._reading.states import STATE_TYPES, RecordsState
from queryable_state.wire.errors import CorruptDataError, QueryableStateError

if TYPE_CHECKING:
    from queryable_state.client._reading.decode_context import DecodeContext
    from queryable_state.client._reading.states import KvState
    from queryable_state.v1 import query_pb2, registration_pb2


def scanned_state(
    kind: registration_pb2.StateKind.ValueType,
    scanned: query_pb2.ScannedKey,
    context: DecodeContext,
) -> KvState:
    """Returns the state of one scanned key; if it has an error, its methods raise the error."""
    if scanned.HasField("error"):
        refusal = QueryableStateError.from_proto(scanned.error)
        return STATE_TYPES[kind](b"", RefusedContext(refusal, context.proto))
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
