"""Errors that only the client raises."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from queryable_state.wire.errors import QueryableStateError, Reason

if TYPE_CHECKING:
    from queryable_state.v1 import errors_pb2


class ClientUnusableError(QueryableStateError):
    """Open another client: this one is closed, or of another event loop or process.

    An error of the program, not of its request.
    """

    default_reason: ClassVar[errors_pb2.Reason.ValueType] = Reason.INVALID_REQUEST


class ClientClosedError(ClientUnusableError):
    """The client was closed before the call or while it waited: open another client."""


def closed() -> ClientUnusableError:
    """Returns the error of a call of a closed client."""
    return ClientClosedError("this client is closed: open another")


def closed_while_waiting() -> ClientUnusableError:
    """Returns the error of a query that was pending when its client was closed."""
    return ClientClosedError("the client was closed while this query waited: open another")


def is_being_cancelled() -> bool:
    """True if the current task itself is cancelled, not only the call it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
