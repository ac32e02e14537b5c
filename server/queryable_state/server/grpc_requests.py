"""Requests of gRPC calls, parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import InvalidRequestError, QueryableStateError, shown

if TYPE_CHECKING:
    import grpc


def parsed(handler: grpc.RpcMethodHandler[Any, Any] | None, method: str, message: bytes) -> Any:
    """A request as its servicer takes it; raises `InvalidRequestError` if it cannot be parsed."""
    deserialize = handler and handler.request_deserializer
    try:
        return deserialize(message) if deserialize else message
    except QueryableStateError:
        raise
    except Exception as problem:  # noqa: BLE001 - whatever the parser raises
        raise InvalidRequestError(
            f"the request of {shown(method)} cannot be read: {problem}"
        ) from None
