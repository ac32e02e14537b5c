"""One cut over many owners: all values as of one committed batch.

Whoever asks takes the newest batch of every owner. Where these differ, the oldest of
them is the cut, and the others are asked again with it as `at_version`: every server
still has the older of two neighbouring batches. Where one of them has folded it away,
or a part moved to an owner that never had it, all begins anew, until the deadline.
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
class Cut(Generic[PartT]):
    """Which batch the values are to be of, and whose are not yet."""

    version: int
    """The batch of the cut."""

    again: tuple[PartT, ...]
    """The parts to be asked again with `at_version` = `version`; none: the cut is there."""


def cut_of(versions: Mapping[PartT, int]) -> Cut[PartT]:
    """The cut through parts that were read at `versions`, of which there is one at least.

    Parts that failed as a whole were read at none, and take no part.
    """
    version = min(versions.values())
    return Cut(version, tuple(part for part, at in versions.items() if at != version))


def begins_anew(error: errors_pb2.Error) -> bool:
    """Whether a part that was asked again refused because the cut is gone."""
    return error.reason == Reason.VERSION_GONE


def check_cut(consistency: query_pb2.Consistency.ValueType) -> None:
    """Raises for a cut through what is not committed: owners seal batches each on its own."""
    if consistency == query_pb2.UNCOMMITTED:
        raise InvalidRequestError(
            "one cut is of a committed batch, and uncommitted values are of none: "
            "leave one of them out"
        )
