"""Errors of gRPC calls: a status code for every client and the whole `Error` as metadata."""

from __future__ import annotations

import string
from typing import Any
from urllib.parse import quote

import grpc

from queryable_state.v1 import errors_pb2
from queryable_state.wire.errors import QueryableStateError, Reason

ERROR_METADATA = "queryable-state-error-bin"

# Clients refuse a status whose metadata, with its text, has more than 8 KiB.
_MOST_TEXT_BYTES = 2_000
_MOST_ERROR_BYTES = 5_000
_PLAIN = " " + string.punctuation.replace("%", "")
# Tag and length of a candidate.
_FIELD_BYTES = 4

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
    Reason.STORAGE_WRITE_FAILED: grpc.StatusCode.FAILED_PRECONDITION,
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


def details_of(error: QueryableStateError) -> str:
    """The text of a call's status; cut if it is long."""
    # A byte that is not printable ASCII is sent as three characters.
    text = quote(error.message, safe=_PLAIN)
    return error.message if len(text) <= _MOST_TEXT_BYTES else _cut(error.message, 3)


def trailing_metadata(error: QueryableStateError) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata with the error; a long text is cut, and the last of many candidates."""
    sent = error.to_proto()
    if sent.ByteSize() > _MOST_ERROR_BYTES:
        sent.message = _cut(sent.message, 1)
        candidates = list(sent.candidates)
        del sent.candidates[1:]
        for each in candidates[1:]:
            if sent.ByteSize() + len(each.encode()) + _FIELD_BYTES > _MOST_ERROR_BYTES:
                break
            sent.candidates.append(each)
    return ((ERROR_METADATA, sent.SerializeToString()),)


def _cut(text: str, bytes_sent: int) -> str:
    """The beginning of a text of which each byte is sent as `bytes_sent`."""
    kept = text.encode()[: _MOST_TEXT_BYTES // bytes_sent].decode(errors="ignore")
    return text if kept == text else f"{kept} ..."


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
