"""Consistent snapshot over many owners: all values as of one committed batch.

The caller reads the newest batch of every owner. Where these differ, the oldest of them
is the snapshot's, and the caller reads the other owners again with it as `at_version`: every
server still has the older of two neighbouring batches. If a server has compacted that batch
meanwhile, or a part moved to an owner that never had it, the caller starts over, until the
deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.v1 import errors_pb2

PartT = TypeVar("PartT")


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


def is_snapshot_gone(error: errors_pb2.Error) -> bool:
    """True if a part could not be read again because its owner no longer has the batch."""
    return error.reason == Reason.VERSION_GONE


def check_snapshot(consistency: query_pb2.Consistency.ValueType) -> None:
    """Raises InvalidRequestError for UNCOMMITTED: owners seal batches independently."""
    if consistency == query_pb2.UNCOMMITTED:
        raise InvalidRequestError(
            "a consistent snapshot is of a committed batch and cannot hold uncommitted values: "
            "ask for one or the other"
        )
