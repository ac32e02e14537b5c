"""Errors that only the client raises."""

from __future__ import annotations

import asyncio

from queryable_state.wire.errors import InvalidRequestError


class ClientClosedError(InvalidRequestError):
    """The client was closed before the call or while it waited: open another client."""


def closed_while_waiting() -> ClientClosedError:
    """Returns the error of a query that was pending when its client was closed."""
    return ClientClosedError("the client was closed while this query waited: open another")


def is_being_cancelled() -> bool:
    """True if the current task itself is cancelled, not only the call it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
