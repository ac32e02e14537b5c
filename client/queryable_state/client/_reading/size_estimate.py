"""Size of a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from queryable_state.client._reading.info import ReadInfo
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2


@dataclass(frozen=True, kw_only=True, slots=True)
class StatePart:
    """Size of the part of a state in one subtask."""

    first_key_group: int

    last_key_group: int
    """Inclusive."""

    subtask: int

    keys: int
    """Keys with records."""

    records: int

    bytes: int
    """Bytes of the records, keys included."""

    exact: bool
    """True if all records were counted; otherwise those of some key groups."""

    keys_error: int
    """How far the true number may be from `keys`, with a probability of 95 %; 0: it is exact."""

    records_error: int

    bytes_error: int

    info: ReadInfo
    """The batch of the count and the server that answered."""

    error: QueryableStateError | None
    """Why this part was not counted; None: it was."""

    @classmethod
    def from_proto(cls, part: query_pb2.StatePart) -> Self:
        """Converts the wire message."""
        failed = part.HasField("error")
        return cls(
            first_key_group=part.first_key_group,
            last_key_group=part.last_key_group,
            subtask=part.subtask,
            keys=part.keys,
            records=part.records,
            bytes=part.bytes,
            exact=part.exact,
            keys_error=part.keys_error,
            records_error=part.records_error,
            bytes_error=part.bytes_error,
            info=ReadInfo.from_proto(part.info),
            error=QueryableStateError.from_proto(part.error) if failed else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StateMeasure:
    """Size of a state: the sums over all parts.

    A subtask with up to about 32,000 records is counted. A larger one is estimated from some of
    its key groups, with the error of that.
    """

    keys: int
    """Keys with records, whatever their number of windows. Of operator state: subtasks."""

    records: int
    """Values, list chunks, map entries, windows of a value, timers. Expired ones do not count."""

    bytes: int
    """Bytes of the records, keys included."""

    exact: bool
    """True if all records of the state were counted."""

    keys_error: int
    """How far the true number may be from `keys`, with a probability of 95 %; 0: it is exact."""

    records_error: int

    bytes_error: int

    complete: bool
    """True if every key group is counted or estimated."""

    parts: tuple[StatePart, ...]
    """By key group."""

    @classmethod
    def from_proto(cls, measured: query_pb2.MeasureStateResponse) -> Self:
        """Converts the wire message."""
        return cls(
            keys=measured.keys,
            records=measured.records,
            bytes=measured.bytes,
            exact=measured.exact,
            keys_error=measured.keys_error,
            records_error=measured.records_error,
            bytes_error=measured.bytes_error,
            complete=measured.complete,
            parts=tuple(StatePart.from_proto(part) for part in measured.parts),
        )
