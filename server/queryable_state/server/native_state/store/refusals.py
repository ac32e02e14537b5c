"""Refusals of a store that only reads."""

from __future__ import annotations

from queryable_state.wire.errors import InvalidRequestError, Reason


def not_in_native_state(what: str) -> InvalidRequestError:
    """The refusal of a call that state of Spark's own operators has no answer to."""
    return InvalidRequestError(
        f"{what}: Spark's own state is served, which only Spark writes and which has none of it",
        reason=Reason.UNSUPPORTED,
    )
