"""Estimated size of a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from queryable_state.client._reading.info import ReadInfo
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class StatePart:
    """Estimated size of the part of a state in one subtask."""

    first_key_group: int

    last_key_group: int
    """Inclusive."""

    subtask: int

    records: int
    """Estimated number of records."""

    bytes: int
    """Estimated bytes, keys included."""

    info: ReadInfo
    """The batch of the estimate and the server that answered."""

    error: QueryableStateError | None
    """Why there is no estimate of this part; None: there is one."""

    @classmethod
    def from_proto(cls, part: query_pb2.StatePart) -> Self:
        """Converts the wire message."""
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
    """Estimated size of a state.

    Records are values, map entries and list chunks. An overwritten record may count
    twice until compaction.
    """

    records: int
    """Sum over all parts."""

    bytes: int
    """Sum over all parts."""

    complete: bool
    """True if there is an estimate for every key group."""

    parts: tuple[StatePart, ...]
    """By key group."""

    @classmethod
    def from_proto(cls, measured: query_pb2.MeasureStateResponse) -> Self:
        """Converts the wire message."""
        return cls(
            records=measured.records,
            bytes=measured.bytes,
            complete=measured.complete,
            parts=tuple(StatePart.from_proto(part) for part in measured.parts),
        )
