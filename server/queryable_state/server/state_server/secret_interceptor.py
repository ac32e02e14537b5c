"""Who may call our internal services."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.server.ending_with_status import end_with_status
from queryable_state.wire.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.ending_with_status import Context


class SecretInterceptor(grpc.aio.ServerInterceptor):
    """Lets no call pass that does not carry the job's secret."""

    def __init__(self, secret: str) -> None:
        self._expected = f"Bearer {secret}".encode()

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or self._carries_secret(handler_call_details):
            return handler
        return _refusing(handler, handler_call_details.method)

    def _carries_secret(self, details: grpc.HandlerCallDetails) -> bool:
        return any(
            key == "authorization"
            and hmac.compare_digest(
                value if isinstance(value, bytes) else value.encode(), self._expected
            )
            for key, value in details.invocation_metadata or ()
        )


def _refusing(
    handler: grpc.RpcMethodHandler[Any, Any], method: str
) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler of the same kind that refuses every call."""

    async def refuse(_request: object, context: Context) -> None:
        await end_with_status(
            context,
            AuthenticationError(
                f"{method} wants the job's secret in the metadata 'authorization: Bearer ...', "
                "and got none or another one: use the secret of the job's driver"
            ),
        )

    make = (
        grpc.stream_unary_rpc_method_handler
        if handler.request_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return make(refuse, handler.request_deserializer, handler.response_serializer)
