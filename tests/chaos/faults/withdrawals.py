"""Batches whose commit Spark took back because their files were gone, and that ran again.

A batch that is withdrawn was committed: what was answered of it was true, and its second run makes
the same of the same input. Between the loss and the second commit the state is as of the batch
before. The batch behind it, if there was one, is planned anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.chaos.checks.reads import Read


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Files of a job that were lost while none of its processes lived."""

    batch: int
    """The newest committed batch."""
    at: float
    """When every process had ended, in seconds since the epoch."""
    committed_at: float
    """When the batch had been committed."""


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """A batch that was committed twice."""

    batch: int
    lost_at: float
    again_at: float
    """The second commit."""

    def is_before_second_commit(self, read: Read) -> bool:
        """Whether an answer of the batch came when the batch was not committed."""
        return (
            read.version == self.batch
            and read.started >= self.lost_at
            and read.ended < self.again_at
        )

    def took_along(self, read: Read) -> bool:
        """Whether an answer is of the batch behind, as it was planned before the loss.

        It was not committed, and Spark plans it anew: with another processing time.
        """
        return read.version == self.batch + 1 and read.started < self.lost_at


def withdrawals(losses: Iterable[Loss], committed_at: Mapping[int, float]) -> list[Withdrawal]:
    """The losses after which Spark has committed the batch again."""
    return [
        Withdrawal(batch=loss.batch, lost_at=loss.at, again_at=committed_at[loss.batch])
        for loss in losses
        if committed_at.get(loss.batch, loss.committed_at) != loss.committed_at
    ]


def first_commits(losses: Iterable[Loss], committed_at: Mapping[int, float]) -> dict[int, float]:
    """When each batch was committed for the first time."""
    first = dict(committed_at)
    for loss in losses:
        first[loss.batch] = min(loss.committed_at, first.get(loss.batch, loss.committed_at))
    return first


def bound_of(version: int, shown: Read, read: Read, withdrawn: Sequence[Withdrawal]) -> int:
    """The oldest batch that a read may show, given one that showed `version` before it.

    What was shown of a batch before it was withdrawn binds later reads to the batch before.
    """
    for each in withdrawn:
        if version == each.batch and shown.started < each.lost_at <= read.started:
            return version - 1
    return version
