"""gRPC server interceptors that refuse every call not signed with the job's secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.server.serving.error_boundary import end_with_status
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError, Reason, shown
from queryable_state.wire.security.authorization import authorization_of
from queryable_state.wire.status import details_of, status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.security.signature_check import SignatureCheck
    from queryable_state.server.serving.error_boundary import Context

    Handler = grpc.RpcMethodHandler[Any, Any]

_INTERNAL = "/queryable_state.internal."


class BlockingSignatureInterceptor(grpc.ServerInterceptor):
    """Interceptor of a server on threads."""

    def __init__(self, check: SignatureCheck) -> None:
        self._check = check

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Handler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        refusal = _refusal(self._check, handler_call_details)
        if refusal is None:
            return continuation(handler_call_details)

        def refuse(_requests: object, context: grpc.ServicerContext) -> object:
            context.set_trailing_metadata(trailing_metadata(refusal))
            context.abort(status_of(refusal), details_of(refusal))

        return _without_request(refuse)


class SignatureInterceptor(grpc.aio.ServerInterceptor):
    """Interceptor of a server on an event loop."""

    def __init__(self, check: SignatureCheck) -> None:
        self._check = check

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        refusal = _refusal(self._check, handler_call_details)
        if refusal is None:
            return await continuation(handler_call_details)

        async def refuse(_requests: object, context: Context) -> None:
            await end_with_status(context, refusal)

        return _without_request(refuse)


def _refusal(check: SignatureCheck, details: grpc.HandlerCallDetails) -> QueryableStateError | None:
    """The refusal of a call that is not signed; None if it is."""
    if not details.method.startswith(_INTERNAL):
        return InvalidRequestError(
            f"there is no method {shown(details.method)} here: this is an internal port, of the "
            "coordinator or for Spark tasks. Clients call a proxy (port 9069 by default) or a "
            "state server (9067)",
            reason=Reason.UNSUPPORTED,
        )
    try:
        check.check(authorization_of(details.invocation_metadata), details.method)
    except QueryableStateError as refusal:
        return refusal
    return None


def _without_request(refuse: Callable[..., Any]) -> Handler:
    # A stream handler for every method: gRPC would receive the request of a unary method first.
    return grpc.stream_unary_rpc_method_handler(refuse)
