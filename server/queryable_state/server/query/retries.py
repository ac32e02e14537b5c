"""Retry policy of a proxy for calls of owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.calls.retrying import RetryPolicy
from queryable_state.wire.errors import PlacementError, Reason
from queryable_state.wire.next_step import NextStep

if TYPE_CHECKING:
    from queryable_state.v1 import errors_pb2, query_pb2
    from queryable_state.wire.located_state import LocatedState

OWNERS = RetryPolicy(
    # Another owner may have the answer. The client retries a refusal that only needs a delay.
    steps=frozenset({NextStep.LOCATE_AGAIN, NextStep.ASK_ANOTHER}),
    first_delay_s=0.005,
    longest_delay_s=0.4,
    longest_server_delay_s=0.4,
)

is_retried = OWNERS.retries


def is_final(answer: query_pb2.Answer) -> bool:
    """True if no key of an answer is retried."""
    if answer.HasField("error"):
        return not is_retried(answer.error)
    return not any(is_retried(failed.error) for failed in answer.failed)


def no_owner(located: LocatedState) -> errors_pb2.Error:
    """Returns the refusal of keys whose key groups have no owner."""
    return PlacementError(
        f"nobody owns these key groups of {located.describe()} at the moment: ask again when a "
        "server has taken them over",
        reason=Reason.NO_OWNER,
        retry_after_ms=200,
        placement_version=located.placement_version,
    ).to_proto()
