"""Hello of the frame protocol: version negotiation and the first frame of each side."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    QueryableStateError,
    RetryLaterError,
)
from queryable_state.wire.packaging.protocol_versions import FRAMES, VersionRange, version_mismatch

MIN_VERSION, MAX_VERSION = FRAMES.oldest, FRAMES.newest
"""Oldest and newest version of the frame protocol that this code speaks."""


def frame_endpoint(port: int) -> registration_pb2.FrameEndpoint:
    """The frame port of a server of this code; 0: it has none."""
    return registration_pb2.FrameEndpoint(
        port=port, min_version=MIN_VERSION, max_version=MAX_VERSION
    )


def common_version(min_version: int, max_version: int) -> int:
    """The newest version that both sides speak; 0: none.

    The arguments are the range of the other side. A `max_version` of 0 means `min_version`.
    """
    return FRAMES.common(_range(min_version, max_version))


def no_common_version(
    mine: str, other: str, min_version: int, max_version: int
) -> InvalidRequestError:
    """Returns the refusal if `other` supports no version of this side."""
    others = _range(min_version, max_version)
    return version_mismatch("frame protocol", mine, FRAMES, other, others)


def client_hello(client: str, authorization: str = "") -> bytes:
    """The first frame of a client."""
    hello = query_pb2.ClientHello(
        min_version=MIN_VERSION,
        max_version=MAX_VERSION,
        client=client,
        authorization=authorization,
    )
    return query_pb2.ClientFrame(hello=hello).SerializeToString()


def response_of(frame: bytes, address: str) -> query_pb2.ServerFrame:
    """Parses a frame of the server at HOST:PORT; raises `CorruptDataError` if it is invalid."""
    try:
        return query_pb2.ServerFrame.FromString(frame)
    except DecodeError as problem:
        raise invalid_frame(address, problem) from problem


def invalid_frame(address: str, problem: DecodeError) -> CorruptDataError:
    """The error of a frame that cannot be parsed."""
    return CorruptDataError(f"{address} sent an invalid frame: {problem}")


def server_hello(frame: bytes, address: str) -> query_pb2.ServerHello:
    """The hello in the first frame of a server; raises the refusal if it is one."""
    response = response_of(frame, address)
    if response.WhichOneof("frame") == "error":
        raise QueryableStateError.from_proto(response.error)
    if response.WhichOneof("frame") != "hello":
        raise CorruptDataError(f"the first frame of {address} is not a hello")
    version = response.hello.protocol_version
    if not MIN_VERSION <= version <= MAX_VERSION:
        raise no_common_version("this client", address, version, version)
    return response.hello


def gone(address: str, what: str) -> RetryLaterError:
    """The error of a connection that ended without a reason from the server."""
    return RetryLaterError(f"{address} {what}: it is stopping or gone", retry_after_ms=100)


def _range(min_version: int, max_version: int) -> VersionRange:
    return VersionRange(min_version, max_version or min_version)
