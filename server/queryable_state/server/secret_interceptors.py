"""gRPC server interceptors that refuse every call without the job's secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.server.serving.error_boundary import end_with_status
from queryable_state.wire.calls.job_secret import carries_secret
from queryable_state.wire.errors import AuthenticationError, shown
from queryable_state.wire.status import status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.serving.error_boundary import Context

    Handler = grpc.RpcMethodHandler[Any, Any]


class BlockingSecretInterceptor(grpc.ServerInterceptor):
    """Interceptor of a server on threads."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Handler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        if carries_secret(handler_call_details.invocation_metadata, self._secret):
            return continuation(handler_call_details)
        refusal = _refusal(handler_call_details.method)

        def refuse(_requests: object, context: grpc.ServicerContext) -> object:
            context.set_trailing_metadata(trailing_metadata(refusal))
            context.abort(status_of(refusal), refusal.message)

        return _without_request(refuse)


class SecretInterceptor(grpc.aio.ServerInterceptor):
    """Interceptor of a server on an event loop."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        if carries_secret(handler_call_details.invocation_metadata, self._secret):
            return await continuation(handler_call_details)
        refusal = _refusal(handler_call_details.method)

        async def refuse(_requests: object, context: Context) -> None:
            await end_with_status(context, refusal)

        return _without_request(refuse)


def _refusal(method: str) -> AuthenticationError:
    return AuthenticationError(
        f"{shown(method)} needs the job's secret in its metadata, `authorization: Bearer "
        "<secret>`, and had none or a wrong one: use the secret of the job's driver, which "
        "offers it in the coordinator's secret_file"
    )


def _without_request(refuse: Callable[..., Any]) -> Handler:
    # A stream handler for every method: gRPC would receive the request of a unary method first.
    return grpc.stream_unary_rpc_method_handler(refuse)
