"""What connections of frames are refused for, and the lines about it in the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.wire.errors import (
    InvalidRequestError,
    LimitExceededError,
    QueryableStateError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
)

if TYPE_CHECKING:
    from queryable_state.wire.errors import CorruptDataError

HELLO_TIMEOUT_S = 10.0
HELLO_BYTES = 4096

_refusals = RateLimitedLog(logging.getLogger(__name__))


def too_many(server_id: str, connections: int) -> RetryLaterError:
    """Of a connection for which there is no room."""
    return RetryLaterError(
        f"server {server_id} has {connections} connections, as many as it takes: share one client, "
        "or ask another server",
        reason=Reason.OVERLOADED,
        retry_after_ms=1000,
    )


def too_long(problem: CorruptDataError) -> LimitExceededError:
    """Of a frame beyond the limit."""
    return LimitExceededError(
        f"{problem.message} (spark.queryable_state.request_bytes; before the hello "
        f"{HELLO_BYTES:,} bytes)"
    )


def silent() -> QueryTimeoutError:
    """Of a client that does not say hello."""
    return QueryTimeoutError(f"no hello came within {HELLO_TIMEOUT_S:g} s")


def unfinished(seconds: float) -> QueryTimeoutError:
    """Of a client that leaves a frame unfinished."""
    return QueryTimeoutError(f"a frame was begun and not ended within {seconds:g} s")


def takes_too_little() -> RetryLaterError:
    """In place of an answer that the client has no room for."""
    return RetryLaterError(
        "answers wait that this client has not read: read them, and ask again",
        reason=Reason.OVERLOADED,
        retry_after_ms=20,
    )


def log_refusal(error: QueryableStateError) -> None:
    """Writes what an operator may want to know of."""
    if isinstance(error, InvalidRequestError | QueryTimeoutError):
        _refusals.write(
            logging.WARNING,
            error.reason_name,
            "a connection of frames is refused: %s",
            error.message,
        )


def log_unread(seconds: float) -> None:
    """Writes that a client is hung up on for what it does not read."""
    _refusals.write(
        logging.WARNING,
        "unread answers",
        "a connection of frames is ended: its client has read nothing for %g s",
        seconds,
    )
