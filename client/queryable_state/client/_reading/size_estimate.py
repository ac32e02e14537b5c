"""About how much a state holds, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from queryable_state.client._reading.info import ReadInfo
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class StatePart:
    """What one owner has of a state in one subtask."""

    first_key_group: int

    last_key_group: int
    """Inclusive."""

    subtask: int

    records: int
    """About how many."""

    bytes: int
    """About how many, keys included."""

    info: ReadInfo
    """The batch it was measured in, and by whom."""

    error: QueryableStateError | None
    """Why this part did not answer; None: it did."""

    @classmethod
    def from_proto(cls, part: query_pb2.StatePart) -> Self:
        """The part as it came over the wire."""
        failed = part.HasField("error")
        return cls(
            first_key_group=part.first_key_group,
            last_key_group=part.last_key_group,
            subtask=part.subtask,
            records=part.records,
            bytes=part.bytes,
            info=ReadInfo.from_proto(part.info),
            error=QueryableStateError.from_proto(part.error) if failed else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StateMeasure:
    """About how much a state holds.

    Records are values, map entries and list chunks. What was written again may
    count twice until it is compacted.
    """

    records: int
    """Of all parts."""

    bytes: int
    """Of all parts."""

    complete: bool
    """Whether every key group has answered."""

    parts: tuple[StatePart, ...]
    """By key group."""

    @classmethod
    def from_proto(cls, measured: query_pb2.MeasureStateResponse) -> Self:
        """The measure as it came over the wire."""
        return cls(
            records=measured.records,
            bytes=measured.bytes,
            complete=measured.complete,
            parts=tuple(StatePart.from_proto(part) for part in measured.parts),
        )
