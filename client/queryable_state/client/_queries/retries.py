"""Retry policies of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.calls.retrying import RetryPolicy
from queryable_state.wire.next_step import NextStep, next_step

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

_FIRST_DELAY_S = 0.01
_LONGEST_DELAY_S = 0.5

LOOKUPS = RetryPolicy(
    # Not WAIT: the server has waited for the commit almost until the caller's deadline.
    steps=frozenset({NextStep.RETRY_SAME, NextStep.LOCATE_AGAIN, NextStep.ASK_ANOTHER}),
    first_delay_s=_FIRST_DELAY_S,
    longest_delay_s=_LONGEST_DELAY_S,
)
"""For calls whose timeout is all the time the caller has left."""

CALLS = RetryPolicy(
    steps=LOOKUPS.steps | {NextStep.WAIT},
    first_delay_s=_FIRST_DELAY_S,
    longest_delay_s=_LONGEST_DELAY_S,
)
"""For calls whose timeout is shorter than the caller's."""


def wants_placement(error: QueryableStateError) -> bool:
    """True if the placement should be refreshed before the retry."""
    return next_step(error.reason) is NextStep.LOCATE_AGAIN
