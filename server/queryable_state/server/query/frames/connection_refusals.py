"""Refusals of frame connections, and their log lines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    LimitExceededError,
    QueryableStateError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
)

if TYPE_CHECKING:
    from queryable_state.wire.frames.framed_stream import FrameReader

HELLO_TIMEOUT_S = 10.0
HELLO_BYTES = 4096

_TLS_HELLO = b"\x16\x03"

_refusals = RateLimitedLog(logging.getLogger(__name__))


def next_frame(frames: FrameReader) -> bytes | None:
    """Returns the next complete frame, or None; raises `LimitExceededError` if it is too long."""
    try:
        return frames.take()
    except CorruptDataError as problem:
        raise LimitExceededError(
            f"{problem.message} (spark.queryable_state.request_bytes; before the hello "
            f"{HELLO_BYTES:,} bytes)"
        ) from None


def wrong_preamble(received: bytes) -> InvalidRequestError:
    """Returns the refusal of a client that speaks another protocol."""
    if received.startswith(_TLS_HELLO):
        return InvalidRequestError(
            "this frame port has no TLS: connect without, or set spark.queryable_state."
            "tls_certificate (--tls-certificate) for the server",
            reason=Reason.PROTOCOL_MISMATCH,
        )
    return InvalidRequestError("a frame port takes no gRPC: use the query port")


def silent() -> QueryTimeoutError:
    """Returns the refusal of a client that sends no hello."""
    return QueryTimeoutError(f"no hello was received within {HELLO_TIMEOUT_S:g} s")


def unfinished(seconds: float) -> QueryTimeoutError:
    """Returns the refusal of a client that does not complete a frame."""
    return QueryTimeoutError(f"a frame was not completed within {seconds:g} s")


def takes_too_little() -> RetryLaterError:
    """Returns the refusal that replaces an answer for which there is no room."""
    return RetryLaterError(
        "the client has not read earlier answers: read them, then retry",
        reason=Reason.OVERLOADED,
        retry_after_ms=20,
    )


def log_refusal(error: QueryableStateError) -> None:
    """Logs a refusal, rate-limited by reason."""
    if isinstance(error, InvalidRequestError | QueryTimeoutError):
        _refusals.write(
            logging.WARNING,
            error.reason_name,
            "refusing a frame connection: %s",
            error.message,
        )


def log_unread(seconds: float) -> None:
    """Logs that a connection is closed because its client reads nothing."""
    _refusals.write(
        logging.WARNING,
        "unread answers",
        "closing a frame connection: its client has read nothing for %g s",
        seconds,
    )
