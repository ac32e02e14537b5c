"""Which refusals a proxy takes up with another owner, and when."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from queryable_state.wire.errors import PlacementError, Reason

if TYPE_CHECKING:
    from queryable_state.v1 import errors_pb2, query_pb2
    from queryable_state.wire.located_state import LocatedState

# Another placement may have the answer. What only waiting helps is the asker's to repeat.
_RELOCATE = frozenset(
    {
        Reason.NOT_OWNER,
        Reason.LEASE_EXPIRED,
        Reason.NO_OWNER,
        Reason.UNAVAILABLE,
        Reason.STOPPING,
    }
)

_FIRST_DELAY_MS = 5
_LONGEST_DELAY_MS = 400


def is_retried(error: errors_pb2.Error) -> bool:
    """Whether the keys are asked for again, after a refresh of the placement."""
    return error.reason in _RELOCATE


def is_settled(answer: query_pb2.Answer) -> bool:
    """Whether nothing of an answer is asked for again."""
    if answer.HasField("error"):
        return not is_retried(answer.error)
    return not any(is_retried(failed.error) for failed in answer.failed)


def delay_s(error: errors_pb2.Error, attempts: int) -> float:
    """Seconds until the next attempt: doubled each time, never all at once."""
    backoff = min(_LONGEST_DELAY_MS, _FIRST_DELAY_MS << min(attempts, 10))
    wait_ms = max(min(error.retry_after_ms, _LONGEST_DELAY_MS), backoff)
    return wait_ms / 1000 * random.uniform(0.8, 1.2)


def no_owner(located: LocatedState) -> errors_pb2.Error:
    """The refusal of keys whose key groups nobody owns."""
    return PlacementError(
        f"nobody owns these key groups of {located.describe()} at the moment: ask again when a "
        "server has taken them over",
        reason=Reason.NO_OWNER,
        retry_after_ms=200,
        placement_version=located.placement_version,
    ).to_proto()
