"""Errors of the client itself, beside those that cross the wire."""

from __future__ import annotations

import asyncio

from queryable_state.wire.errors import InvalidRequestError


class ClientClosedError(InvalidRequestError):
    """Open another client: this one was closed, before the call or while it waited."""


def closed_while_waiting() -> ClientClosedError:
    """Of a query that was pending."""
    return ClientClosedError("the client was closed while this query waited: open another")


def is_being_cancelled() -> bool:
    """True if the current task is cancelled, and not the call that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
