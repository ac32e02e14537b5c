"""Validation of queries before they are routed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.config.limits import Limits

# A query whose client has silently gone waits so long for a commit.
_LONGEST_DEADLINE_MS = 600_000

_CONSISTENCIES = (query_pb2.COMMITTED, query_pb2.UNCOMMITTED)


def check_consistency(consistency: int) -> None:
    """Raises for an unknown consistency, instead of answering with a weaker one."""
    if consistency not in _CONSISTENCIES:
        raise InvalidRequestError(
            f"consistency {consistency} is unknown to this server: use a value of Consistency",
            reason=Reason.UNSUPPORTED,
        )


def limit_deadline(query: query_pb2.Query) -> None:
    """Sets a longer deadline of a client to ten minutes."""
    if query.deadline_ms > _LONGEST_DEADLINE_MS:
        query.deadline_ms = _LONGEST_DEADLINE_MS


def check_query(query: query_pb2.Query, limits: Limits, frame_bytes: int) -> None:
    """Raises `InvalidRequestError` for a query that can never be answered.

    A key is never longer than its frame, so the keys of a short frame need no check.
    """
    if not query.state_id:
        raise InvalidRequestError("a query needs the state_id that LocateState returned")
    check_consistency(query.consistency)
    if not query.keys:
        raise InvalidRequestError("a query needs at least one key")
    check_number_of_keys(len(query.keys), limits)
    # Checked before a proxy splits the query by owner.
    _check_aligned("elements", len(query.elements), len(query.keys))
    _check_aligned("ranges", len(query.ranges), len(query.keys))
    _check_aligned("windows", len(query.windows), len(query.keys))
    if frame_bytes > limits.key_bytes:
        check_longest("encoded key", query.keys, limits)
        check_longest("encoded map key", query.elements, limits)
        check_longest("encoded namespace", (query.namespace,), limits)


def _check_aligned(what: str, given: int, keys: int) -> None:
    """Raises unless there is none, one for all keys, or one for each key."""
    if given not in (0, 1, keys):
        raise InvalidRequestError(
            f"{given} {what} for {keys} keys: pass one for all keys, or one for each key"
        )


def check_number_of_keys(keys: int, limits: Limits) -> None:
    """Raises for more keys than a query may have."""
    if keys > limits.batch_keys:
        raise LimitExceededError(
            f"{keys:,} keys in one query, {limits.batch_keys:,} allowed "
            "(spark.queryable_state.batch_keys): split it"
        )


def check_longest(what: str, encoded: Iterable[bytes], limits: Limits) -> None:
    """Raises if one of the keys is longer than allowed."""
    longest = max(map(len, encoded), default=0)
    if longest > limits.key_bytes:
        raise LimitExceededError(
            f"an {what} has {longest:,} bytes, {limits.key_bytes:,} allowed "
            "(spark.queryable_state.key_bytes)"
        )
