"""Refusals at the edge of our internal services."""

from __future__ import annotations

import hmac
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.wire.errors import AuthenticationError, InternalError, QueryableStateError
from queryable_state.wire.status import status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

_log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]


@asynccontextmanager
async def ending_with_status(context: Context, what: str) -> AsyncIterator[None]:
    """Ends the call with the status of a refusal; a defect is logged and told as one."""
    try:
        yield
    except QueryableStateError as refusal:
        await _abort(context, refusal)
    except grpc.aio.BaseError:
        raise
    except Exception as defect:  # noqa: BLE001 - the boundary: a defect becomes a status
        _log.exception("%s failed", what)
        await _abort(
            context,
            InternalError(
                f"{what} failed ({type(defect).__name__}: {defect}); the log of the state server "
                "has the trace"
            ),
        )


async def _abort(context: Context, error: QueryableStateError) -> None:
    await context.abort(status_of(error), error.message, trailing_metadata(error))


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
        await _abort(
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
