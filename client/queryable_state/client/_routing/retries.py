"""Which refusals are worth asking again, how, and when."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from queryable_state.wire.errors import Reason

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

# Somebody else may have the answer, or the state another id.
_RELOCATE = frozenset({Reason.NOT_OWNER, Reason.LEASE_EXPIRED, Reason.NO_OWNER, Reason.UNAVAILABLE})
# Another server answers now, if there is one: the placement is as it was.
_ELSEWHERE = frozenset({Reason.STOPPING})
# An owner that is BEHIND has waited for its commit nearly as long as the caller would.
_WAIT = frozenset({Reason.OVERLOADED})

_FIRST_DELAY_S = 0.01
_LONGEST_DELAY_S = 0.5


def is_transient(error: QueryableStateError) -> bool:
    """Whether the same call may succeed later."""
    return error.reason in _RELOCATE or error.reason in _WAIT or error.reason in _ELSEWHERE


def wants_placement(error: QueryableStateError) -> bool:
    """Whether the placement should be refreshed before asking again."""
    return error.reason in _RELOCATE


def delay_s(error: QueryableStateError, attempts: int) -> float:
    """Seconds to wait before the next attempt: doubled each time, never all at once."""
    backoff = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * (1 << min(attempts, 10)))
    spread = random.uniform(0.8, 1.2)
    return max(error.retry_after_ms / 1000, backoff) * spread
