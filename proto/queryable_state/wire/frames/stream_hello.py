"""How a stream of queries begins, goes on and ends, over whichever connection."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)

PROTOCOL_VERSION = 1


def client_hello(client: str) -> bytes:
    """The first frame of the asking side."""
    hello = query_pb2.ClientHello(protocol_version=PROTOCOL_VERSION, client=client)
    return query_pb2.StreamKvStateRequest(hello=hello).SerializeToString()


def response_of(frame: bytes, address: str) -> query_pb2.StreamKvStateResponse:
    """A frame of the answering side at HOST:PORT."""
    try:
        return query_pb2.StreamKvStateResponse.FromString(frame)
    except DecodeError as problem:
        raise CorruptDataError(f"{address} sent what is no answer: {problem}") from problem


def server_hello(frame: bytes, address: str) -> query_pb2.ServerHello:
    """What the first frame of the answering side says; raises the refusal where it is one."""
    response = response_of(frame, address)
    if response.WhichOneof("frame") == "error":
        raise QueryableStateError.from_proto(response.error)
    if response.WhichOneof("frame") != "hello":
        raise CorruptDataError(f"{address} did not begin its stream with a hello")
    if response.hello.protocol_version != PROTOCOL_VERSION:
        raise InvalidRequestError(
            f"{address} speaks version {response.hello.protocol_version} of the query protocol, "
            f"this side version {PROTOCOL_VERSION}: use the same version on both",
            reason=Reason.PROTOCOL_MISMATCH,
        )
    return response.hello


def gone(address: str, what: str) -> RetryLaterError:
    """The error of a stream that ended without a reason of the server's."""
    return RetryLaterError(f"{address} {what}: it is stopping or gone", retry_after_ms=100)
