"""Errors of the client itself, beside those that cross the wire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError


class ClientClosedError(InvalidRequestError):
    """Open another client: this one was closed, before the call or while it waited."""


def closed_while_waiting() -> ClientClosedError:
    """Of a query that was pending."""
    return ClientClosedError("the client was closed while this query waited: open another")


def is_being_cancelled() -> bool:
    """True if the current task is cancelled, and not the call that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def afresh(error: QueryableStateError) -> QueryableStateError:
    """An equal error of its own: one raised by many awaits would gather their tracebacks."""
    return type(error)(
        error.message,
        reason=error.reason,
        retry_after_ms=error.retry_after_ms,
        candidates=error.candidates,
        complete_since_batch=error.complete_since_batch,
        placement_version=error.placement_version,
    )
