"""Errors of gRPC calls: a status code for every client and the whole `Error` as metadata."""

from __future__ import annotations

from typing import Any

import grpc

from queryable_state.v1 import errors_pb2
from queryable_state.wire.errors import QueryableStateError, Reason

ERROR_METADATA = "queryable-state-error-bin"

_STATUS = {
    Reason.INVALID_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.KEY_TYPE_MISMATCH: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.DESCRIPTOR_MISMATCH: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.LIMIT_EXCEEDED: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.PROTOCOL_MISMATCH: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.UNKNOWN_JOB: grpc.StatusCode.NOT_FOUND,
    Reason.UNKNOWN_STATE: grpc.StatusCode.NOT_FOUND,
    Reason.UNKNOWN_KEY: grpc.StatusCode.NOT_FOUND,
    Reason.AMBIGUOUS_JOB: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.PERMISSION_DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.UNSUPPORTED: grpc.StatusCode.UNIMPLEMENTED,
    Reason.NOT_OWNER: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.LEASE_EXPIRED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.NO_OWNER: grpc.StatusCode.UNAVAILABLE,
    Reason.BEHIND: grpc.StatusCode.UNAVAILABLE,
    Reason.OVERLOADED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.STOPPING: grpc.StatusCode.UNAVAILABLE,
    Reason.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Reason.VERSION_GONE: grpc.StatusCode.OUT_OF_RANGE,
    Reason.STATE_LOST: grpc.StatusCode.DATA_LOSS,
    Reason.CORRUPT: grpc.StatusCode.DATA_LOSS,
    Reason.CHECKSUM_MISMATCH: grpc.StatusCode.DATA_LOSS,
    Reason.INTERNAL: grpc.StatusCode.INTERNAL,
    Reason.CHECKPOINT_FAILED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.FENCED: grpc.StatusCode.ABORTED,
    Reason.ALREADY_COMMITTED: grpc.StatusCode.ABORTED,
    Reason.STALE_TOKEN: grpc.StatusCode.ABORTED,
}

_REASON = {
    grpc.StatusCode.UNAVAILABLE: Reason.UNAVAILABLE,
    grpc.StatusCode.CANCELLED: Reason.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED: Reason.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Reason.LIMIT_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED: Reason.UNSUPPORTED,
    grpc.StatusCode.UNAUTHENTICATED: Reason.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED: Reason.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT: Reason.INVALID_REQUEST,
}


def status_of(error: QueryableStateError) -> grpc.StatusCode:
    """The gRPC status code of an error."""
    return _STATUS.get(error.reason, grpc.StatusCode.FAILED_PRECONDITION)


def trailing_metadata(error: QueryableStateError) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata with the whole error."""
    return ((ERROR_METADATA, error.to_proto().SerializeToString()),)


def is_refusal(failure: grpc.RpcError) -> bool:
    """True if the server sent the error; False if the transport or the server's code failed."""
    call: Any = failure
    return any(key == ERROR_METADATA for key, _ in call.trailing_metadata() or ())


def error_from_call(failure: grpc.RpcError, peer: str) -> QueryableStateError:
    """The error of a failed call to `peer` (HOST:PORT), sync or asyncio.

    It is the error that the server sent, or else one with the reason nearest to the status.
    """
    call: Any = failure
    for key, value in call.trailing_metadata() or ():
        if key == ERROR_METADATA:
            return QueryableStateError.from_proto(errors_pb2.Error.FromString(value))
    reason = _REASON.get(call.code(), Reason.INTERNAL)
    return QueryableStateError.from_proto(
        errors_pb2.Error(
            reason=reason,
            message=f"{peer}: {call.code().name}: {call.details()}",
            retry_after_ms=100 if reason == Reason.UNAVAILABLE else 0,
        )
    )
