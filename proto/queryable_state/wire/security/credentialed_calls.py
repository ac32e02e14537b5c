"""Unary gRPC calls of an event loop with credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc.aio

from queryable_state.wire.security.authorization import call_metadata
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.wire.security.authorization import Credentials


async def with_credentials(
    credentials: Credentials | None, method: str, call: Callable[[Any], Awaitable[Any]]
) -> Any:
    """The answer of `call(metadata)`; repeats the call once if the credentials correct themselves.

    Raises what the call raises.
    """
    if credentials is None:
        return await call(None)
    try:
        return await call(call_metadata(credentials, method))
    except grpc.aio.AioRpcError as failure:
        if not credentials.corrects(error_from_call(failure, method)):
            raise
    return await call(call_metadata(credentials, method))
