"""HTTP statuses and bodies of errors."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from aiohttp import web

from queryable_state.wire.errors import Reason

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

_STATUS = {
    **dict.fromkeys(
        (
            Reason.INVALID_REQUEST,
            Reason.KEY_TYPE_MISMATCH,
            Reason.DESCRIPTOR_MISMATCH,
            Reason.LIMIT_EXCEEDED,
            Reason.PROTOCOL_MISMATCH,
            Reason.UNSUPPORTED,
        ),
        400,
    ),
    Reason.UNAUTHENTICATED: 401,
    Reason.PERMISSION_DENIED: 403,
    **dict.fromkeys((Reason.UNKNOWN_JOB, Reason.UNKNOWN_STATE, Reason.UNKNOWN_KEY), 404),
    Reason.OVERLOADED: 429,
    **dict.fromkeys((Reason.INTERNAL, Reason.CORRUPT, Reason.CHECKSUM_MISMATCH), 500),
    **dict.fromkeys(
        (
            Reason.NOT_OWNER,
            Reason.LEASE_EXPIRED,
            Reason.NO_OWNER,
            Reason.BEHIND,
            Reason.UNAVAILABLE,
            Reason.STOPPING,
        ),
        503,
    ),
    Reason.DEADLINE_EXCEEDED: 504,
}
# The request is well formed, but does not fit the state, the job or its storage as it is now.
_CONFLICT = 409

_WAIT = frozenset({429, 503})

STATUSES = {
    400: "The request can never succeed as it is.",
    401: "The token is missing, unknown or expired.",
    403: "The caller has no grant, or there is no such state.",
    404: "There is no such job, state or key.",
    409: "The state, the job or its storage does not allow it now.",
    429: "Too much is in flight: ask again after `Retry-After` seconds.",
    500: "A defect, or stored bytes that cannot be read: ask an operator.",
    503: "A server cannot be reached or is not ready: ask again after `Retry-After` seconds.",
    504: "The answer was not there in time.",
}
"""The statuses of errors that every path may have, with what to do."""


def status_of(error: QueryableStateError) -> int:
    """The HTTP status of an error."""
    return _STATUS.get(error.reason, _CONFLICT)


def error_answer(error: QueryableStateError) -> web.Response:
    """The answer for an error."""
    status = status_of(error)
    headers = {}
    if status in _WAIT:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_ms / 1000)))
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="queryable-state"'
    return json_answer(error_json(error), status, headers)


def refused(
    status: int, reason: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    """The answer for a request that does not reach the service."""
    error = {"reason": reason, "message": message, "retry_after_ms": 0, "candidates": []}
    return json_answer({"error": error}, status, headers)


def error_json(error: QueryableStateError) -> dict[str, Any]:
    """The body of the answer for an error."""
    body: dict[str, Any] = {
        "reason": error.reason_name,
        "message": error.message,
        "retry_after_ms": error.retry_after_ms,
        "candidates": list(error.candidates),
    }
    if error.complete_since_batch:
        body["complete_since_batch"] = error.complete_since_batch
    return {"error": body}


def json_answer(
    body: object, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """An answer in JSON."""
    return web.Response(
        body=json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
        status=status,
        headers=headers,
        content_type="application/json",
        charset="utf-8",
    )
