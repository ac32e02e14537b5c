"""What every query is checked for before anyone looks for its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    check_number_of_keys(len(query.keys), limits)
    if query.elements and len(query.elements) not in (1, len(query.keys)):
        # Before a proxy hands each owner those of its keys.
        raise InvalidRequestError(
            f"{len(query.elements)} elements for {len(query.keys)} keys: give one for all keys, "
            "or one each"
        )
    if frame_bytes > limits.key_bytes:
        check_longest("encoded key", query.keys, limits)
        check_longest("encoded map key", query.elements, limits)
        check_longest("encoded namespace", (query.namespace,), limits)


def check_number_of_keys(keys: int, limits: Limits) -> None:
    """Raises for more keys than one query may have."""
    if keys > limits.batch_keys:
        raise LimitExceededError(
            f"{keys:,} keys in one query, {limits.batch_keys:,} allowed "
            "(spark.queryable_state.batch_keys): split it"
        )


def check_longest(what: str, encoded: Iterable[bytes], limits: Limits) -> None:
    """Raises for bytes that are longer than a key may be."""
    longest = max(map(len, encoded), default=0)
    if longest > limits.key_bytes:
        raise LimitExceededError(
            f"an {what} has {longest:,} bytes, {limits.key_bytes:,} allowed "
            "(spark.queryable_state.key_bytes)"
        )
