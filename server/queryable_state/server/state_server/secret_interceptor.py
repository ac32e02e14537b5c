"""Who may call our internal services."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.server.serving.error_boundary import end_with_status
from queryable_state.wire.errors import AuthenticationError, shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.serving.error_boundary import Context


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
        if self._carries_secret(handler_call_details):
            return await continuation(handler_call_details)
        return _refusing(handler_call_details.method)

    def _carries_secret(self, details: grpc.HandlerCallDetails) -> bool:
        return any(
            key == "authorization"
            and hmac.compare_digest(
                value if isinstance(value, bytes) else value.encode(), self._expected
            )
            for key, value in details.invocation_metadata or ()
        )


def _refusing(method: str) -> grpc.RpcMethodHandler[Any, Any]:
    """A handler that refuses every call, and receives no request of it.

    One of streams, whatever the method: that of a single request is received before it is called.
    """

    async def refuse(_request: object, context: Context) -> None:
        await end_with_status(
            context,
            AuthenticationError(
                f"{shown(method)} wants the job's secret in the metadata "
                "'authorization: Bearer ...', and got none or another one: use the secret of the "
                "job's driver"
            ),
        )

    return grpc.stream_unary_rpc_method_handler(refuse)
