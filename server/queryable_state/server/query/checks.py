"""What every query is checked for before anyone looks for its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError, Reason

if TYPE_CHECKING:
    from queryable_state.server.settings import Limits

_CONSISTENCIES = (query_pb2.COMMITTED, query_pb2.UNCOMMITTED)


def check_consistency(consistency: int) -> None:
    """Raises for one that is not known here, which would be answered as a weaker one."""
    if consistency not in _CONSISTENCIES:
        raise InvalidRequestError(
            f"consistency {consistency} is not known here: ask for one that Consistency has",
            reason=Reason.UNSUPPORTED,
        )


def check_query(query: query_pb2.Query, limits: Limits, frame_bytes: int) -> None:
    """Raises `InvalidRequestError` for what can never be answered.

    No key is longer than its frame, so that short frames need no look at each key.
    """
    if not query.state_id:
        raise InvalidRequestError("a query must name its state by the state_id of LocateState")
    check_consistency(query.consistency)
    if not query.keys:
        raise InvalidRequestError("a query must have at least one key")
    if len(query.keys) > limits.batch_keys:
        raise LimitExceededError(
            f"{len(query.keys)} keys in one query, {limits.batch_keys} allowed: split it"
        )
    if query.elements and len(query.elements) not in (1, len(query.keys)):
        # Before a proxy hands each owner those of its keys.
        raise InvalidRequestError(
            f"{len(query.elements)} elements for {len(query.keys)} keys: give one for all keys, "
            "or one each"
        )
    if frame_bytes > limits.key_bytes:
        longest = max(map(len, query.keys))
        if longest > limits.key_bytes:
            raise LimitExceededError(
                f"an encoded key has {longest} bytes, {limits.key_bytes} allowed"
            )
