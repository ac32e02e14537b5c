"""Timestamps of elements: milliseconds since the epoch, rounded down; null is none.

They are those of an event-time column of the elements, or of the internal column, which a stream
has if its elements are the outputs of functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EVENT_TIME_COLUMN: Final = "__event_time"
"""The internal column. No column of a user may have this name."""
EVENT_TIME_FIELD: Final = Field(EVENT_TIME_COLUMN, TypeInfo(Kind.LONG))


class CurrentTime:
    """The timestamp of the current element of a task."""

    ms: int | None = None

    def over(self, elements: Iterator[Any], rows: pa.RecordBatch, event_time: str) -> Iterator[Any]:
        """The elements of rows, of which `event_time` is the event-time column; empty: they have
        none. The timestamp moves with the elements."""
        self.ms = None
        if not event_time:
            return elements
        return self._moving(elements, timestamps(rows.column(event_time)).to_pylist())

    def _moving(self, elements: Iterator[Any], times: Sequence[int | None]) -> Iterator[Any]:
        for self.ms, element in zip(times, elements, strict=True):
            yield element


def timestamps(column: pa.Array) -> pa.Array:
    """The timestamps (int64) of an event-time column or of the internal one."""
    if pa.types.is_int64(column.type):
        return column
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    millis = pc.divide(micros, 1000)
    # Integer division rounds towards 0: before 1970 that is up.
    return pc.subtract(millis, pc.less(micros, pc.multiply(millis, 1000)).cast(pa.int64()))
