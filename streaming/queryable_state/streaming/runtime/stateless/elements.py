"""Elements of a stream as Python objects, read from Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from queryable_state.streaming.runtime.operators.function_run import element_reader
from queryable_state.streaming.runtime.states.input_spec import InputSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.wire.schema.types import Field, TypeInfo


class ElementReader:
    """Reads the elements of batches with these columns."""

    def __init__(self, fields: Sequence[Field], element_type: TypeInfo) -> None:
        self._read = element_reader(
            InputSpec(
                key_columns=(),
                value_columns=tuple(field.name for field in fields),
                value_type=element_type,
                check_column="",
            )
        )

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """The elements of a batch, in order."""
        return self._read(batch)

    @staticmethod
    def timestamps(batch: pa.RecordBatch, event_time: str) -> list[int | None]:
        """The values of the event-time column in milliseconds since the epoch; null is None."""
        return timestamps(batch.column(event_time))


def timestamps(column: pa.Array) -> list[int | None]:
    """A timestamp column in milliseconds since the epoch, rounded down; null is None."""
    micros = column.cast(pa.timestamp("us")).cast(pa.int64())
    millis = pc.floor(pc.divide(micros.cast(pa.float64()), 1000.0)).cast(pa.int64())
    found: list[int | None] = millis.to_pylist()
    return found
