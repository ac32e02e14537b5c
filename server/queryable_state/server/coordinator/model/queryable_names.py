"""Queryable names of a job, each of one state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, kw_only=True)
class NameClaim:
    """A queryable name, and the state and operator that claim it."""

    queryable_name: str
    operator: str
    """The operator as errors name it: uid, and name if it has one."""
    state_name: str


def check_queryable_names(claims: Iterable[NameClaim]) -> None:
    """Raises DUPLICATE_NAME if a name is claimed twice in one job; for use at submission."""
    owners: dict[str, NameClaim] = {}
    for claim in claims:
        other = owners.setdefault(claim.queryable_name, claim)
        if other is not claim:
            raise _duplicate(other, claim)


def _duplicate(first: NameClaim, second: NameClaim) -> JobError:
    return JobError(
        f"queryable name {second.queryable_name!r} is claimed twice in one job: by state "
        f"{first.state_name!r} of operator {first.operator} and by state {second.state_name!r} of "
        f"operator {second.operator}; give each its own name",
        reason=Reason.DUPLICATE_NAME,
    )
