"""Errors that every store raises in the same words."""

from __future__ import annotations

from queryable_state.wire.errors import RetryLaterError, UnknownStateError


def unknown_state(state_id: int) -> UnknownStateError:
    """The error for a state id that was never added to the store."""
    return UnknownStateError(
        f"this store has no state {state_id}: add it before it is sealed or read"
    )


def no_time_index(state_id: int) -> UnknownStateError:
    """The error for a read of timers in a state that was not added as one of timers."""
    return UnknownStateError(
        f"this store has no timers of state {state_id}: add it as a state of timers first"
    )


def store_closed() -> RetryLaterError:
    """The error for every call on a closed store."""
    return RetryLaterError(
        "the store is closed: ask the owner of the key group", retry_after_ms=100
    )
