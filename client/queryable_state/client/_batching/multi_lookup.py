"""Lookup of many keys of which each may fail alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import ClientUnusableError
from queryable_state.client._reading.outcomes import KeyOutcomes, OutcomeResults
from queryable_state.wire.errors import (
    AmbiguousJobError,
    AuthenticationError,
    DescriptorMismatchError,
    KeyTypeError,
    PermissionDeniedError,
    QueryableStateError,
    UnknownJobError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.client._batching.key_batcher import KeyBatcher

# Errors that concern the whole call, not one key.
_CALL_ERRORS = (
    AmbiguousJobError,
    AuthenticationError,
    ClientUnusableError,
    DescriptorMismatchError,
    PermissionDeniedError,
    UnknownJobError,
    UnknownStateError,
)


def look_up_many(
    batcher: KeyBatcher, keys: Sequence[Any], deadline: float | None = None
) -> KeyOutcomes:
    """Looks up keys as the caller gave them; returns outcomes that are still incomplete.

    With a deadline the keys are sent at once, else with all lookups of this turn of the loop.
    """
    outcomes = KeyOutcomes(batcher.new_future(), len(keys))
    positions: Sequence[int] = range(len(keys))
    try:
        encoded = list(keys) if batcher.encode_all is None else batcher.encode_all(keys)
    except QueryableStateError:
        encoded, positions = _encodable(batcher, keys, outcomes)
    if encoded:
        batcher.add_all(encoded, OutcomeResults(outcomes, positions), deadline)
    return outcomes


def _encodable(
    batcher: KeyBatcher, keys: Sequence[Any], outcomes: KeyOutcomes
) -> tuple[list[Any], Sequence[int]]:
    """Returns the wire keys that can be encoded, with their positions; fails the others."""
    encode = batcher.encode
    assert encode is not None
    encoded, positions = [], []
    for position, key in enumerate(keys):
        try:
            encoded.append(encode(key))
            positions.append(position)
        except QueryableStateError as error:
            outcomes.fail(position, batcher.key_error(error))
    return encoded, positions


def raise_call_error(batcher: KeyBatcher, outcomes: KeyOutcomes) -> None:
    """Raises the error that concerns the whole call, if there is one."""
    batcher.check()
    for failure in outcomes.failures():
        if isinstance(failure, _CALL_ERRORS):
            raise failure.copy()


def raise_if_unread(outcomes: KeyOutcomes) -> None:
    """Raises an error if not one key was read: a caller who looks only at what was found would
    take it for an answer."""
    failures = list(outcomes.failures())
    if failures and len(failures) == len(outcomes.by_position):
        others = (failure for failure in failures if not isinstance(failure, KeyTypeError))
        raise next(others, failures[0]).copy()
