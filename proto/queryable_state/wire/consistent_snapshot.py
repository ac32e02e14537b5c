"""The consistent read over many owners: all values as of one committed batch.

The first read takes the newest batch of every owner. If these differ, the oldest of them is
the cut, and the other parts are read again with it as `at_version`: every server keeps the
older of two neighbouring batches. If an owner has compacted it, or a part moved to an owner
that never had it, the read starts over, until the deadline. Client and proxy share this loop.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from queryable_state.v1 import query_pb2
from queryable_state.wire.calls.retrying import Attempts, RetryPolicy
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.next_step import NextStep

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from queryable_state.wire.calls.retrying import Refusal

PartT = TypeVar("PartT")
ReadT = TypeVar("ReadT", bound="CutRead[Any]")

_START_OVER = RetryPolicy(
    steps=frozenset({NextStep.START_OVER}), first_delay_s=0.01, longest_delay_s=0.5
)


@dataclass(frozen=True)
class Cut(Generic[PartT]):
    """The batch of a consistent read, and the parts that are of a newer one."""

    version: int
    """The batch of the cut."""

    again: tuple[PartT, ...]
    """The parts to read again with `at_version` = `version`; empty: all are of the cut."""


def cut_of(versions: Mapping[PartT, int]) -> Cut[PartT]:
    """The cut through parts that were read at `versions`, of which there is one at least.

    Parts that failed as a whole were read at none, and take no part.
    """
    version = min(versions.values())
    return Cut(version, tuple(part for part, at in versions.items() if at != version))


class CutRead(Protocol[PartT]):
    """The answers of all owners to one read."""

    def versions(self) -> Mapping[PartT, int]:
        """The batch of each part; without the parts that failed as a whole."""
        ...

    async def read_again(self, cut: Cut[PartT]) -> Refusal | None:
        """Replaces the parts `cut.again` by reads as of `cut.version`.

        Returns a refusal of one of them that has the next step START_OVER; None: there is none.
        """
        ...


async def read_one_cut(read: Callable[[], Awaitable[ReadT]], *, deadline_s: float) -> ReadT:
    """Reads until all parts are of one batch; the deadline is a time of the running loop.

    After the deadline the parts whose batch is gone have failed with `VersionGoneError`.
    """
    attempts = Attempts(_START_OVER, deadline_s, asyncio.get_running_loop().time)
    while True:
        answers = await read()
        versions = answers.versions()
        if not versions:
            return answers
        cut = cut_of(versions)
        gone = await answers.read_again(cut) if cut.again else None
        delay_s = None if gone is None else attempts.delay_s(gone)
        if delay_s is None:
            return answers
        await asyncio.sleep(delay_s)


def starts_over(refusal: Refusal) -> bool:
    """True if a part refused because the batch of the cut is gone."""
    return _START_OVER.retries(refusal)


def check_cut(consistency: query_pb2.Consistency.ValueType) -> None:
    """Raises for a cut through what is not committed: owners seal batches each on its own."""
    if consistency == query_pb2.UNCOMMITTED:
        raise InvalidRequestError(
            "one cut is of a committed batch, and uncommitted values are of none: "
            "leave one of them out"
        )
