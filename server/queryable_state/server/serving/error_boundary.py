"""Error boundary of every service: an exception becomes the status that the client gets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import grpc.aio

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.wire.errors import InternalError, QueryableStateError
from queryable_state.wire.status import details_of, status_of, trailing_metadata

if TYPE_CHECKING:
    from types import TracebackType

_defects = RateLimitedLog(logging.getLogger(__name__))

Context = grpc.aio.ServicerContext[Any, Any]


class ErrorBoundary:
    """Ends a call with the status of the exception that its block raises.

    Any exception but a `QueryableStateError` is a defect and becomes an `InternalError`:
    `what` failed. A class, because `asynccontextmanager` makes a generator for every call.
    """

    __slots__ = ("_context", "_what")

    def __init__(self, context: Context, what: str) -> None:
        self._context = context
        self._what = what

    async def __aenter__(self) -> None:
        """Does nothing."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, grpc.aio.BaseError):
            return
        await end_with_status(self._context, to_refusal(error, self._what))


def to_refusal(error: Exception, what: str) -> QueryableStateError:
    """The error for the client; logs a defect and makes an `InternalError` of it."""
    if isinstance(error, QueryableStateError):
        return error
    _defects.write(logging.ERROR, type(error).__name__, "%s failed", what, problem=error)
    return InternalError(f"{what} failed: {type(error).__name__}; the server's log has the trace")


async def end_with_status(context: Context, error: QueryableStateError) -> None:
    """Ends a call with the status of an error; raises the exception that ends its handler."""
    await context.abort(status_of(error), details_of(error), trailing_metadata(error))
