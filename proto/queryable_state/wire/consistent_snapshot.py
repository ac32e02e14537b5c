"""Consistent snapshot over many owners: all values as of one committed batch.

The first read takes the newest batch of every owner. If these differ, the oldest of them is
the batch of the snapshot, and the other parts are read again with it as `at_version`: every
server keeps the older of two neighbouring batches. If an owner has compacted it, or a part
moved to an owner that never had it, the read starts over, until the deadline. Client and
proxy share this loop.
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
ReadT = TypeVar("ReadT", bound="SnapshotRead[Any]")

_START_OVER = RetryPolicy(
    steps=frozenset({NextStep.START_OVER}), first_delay_s=0.01, longest_delay_s=0.5
)


@dataclass(frozen=True)
class Snapshot(Generic[PartT]):
    """The batch of a consistent snapshot and the parts that were read at a newer one."""

    version: int
    """The batch of the snapshot."""

    again: tuple[PartT, ...]
    """The parts to read again with `at_version` = `version`; empty: the snapshot is complete."""


def snapshot_of(versions: Mapping[PartT, int]) -> Snapshot[PartT]:
    """The snapshot of parts that were read at `versions`, at least one.

    `versions` leaves out parts that failed as a whole.
    """
    version = min(versions.values())
    return Snapshot(version, tuple(part for part, at in versions.items() if at != version))


class SnapshotRead(Protocol[PartT]):
    """The answers of all owners to one read."""

    def versions(self) -> Mapping[PartT, int]:
        """Returns the batch of each part, without the parts that failed as a whole."""
        ...

    async def read_again(self, snapshot: Snapshot[PartT]) -> Refusal | None:
        """Replaces the parts `snapshot.again` by reads at `snapshot.version`.

        Returns a refusal of one of them whose next step is START_OVER, or None.
        """
        ...


async def read_snapshot(read: Callable[[], Awaitable[ReadT]], *, deadline_s: float) -> ReadT:
    """Reads until all parts are of one batch; the deadline is a time of the running loop.

    After the deadline, parts whose batch is compacted fail with `VersionGoneError`.
    """
    attempts = Attempts(_START_OVER, deadline_s, asyncio.get_running_loop().time)
    while True:
        answers = await read()
        versions = answers.versions()
        if not versions:
            return answers
        snapshot = snapshot_of(versions)
        gone = await answers.read_again(snapshot) if snapshot.again else None
        delay_s = None if gone is None else attempts.delay_s(gone)
        if delay_s is None:
            return answers
        await asyncio.sleep(delay_s)


def starts_over(refusal: Refusal) -> bool:
    """True if a part refused because its owner no longer has the batch."""
    return _START_OVER.retries(refusal)


def check_snapshot(consistency: query_pb2.Consistency.ValueType) -> None:
    """Raises InvalidRequestError for UNCOMMITTED: owners seal batches independently."""
    if consistency == query_pb2.UNCOMMITTED:
        raise InvalidRequestError(
            "a consistent snapshot is of a committed batch and cannot hold uncommitted values: "
            "ask for one or the other"
        )
