"""Elements of a stream as Python objects, read from Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.operators.function_run import element_reader
from queryable_state.streaming.runtime.states.input_spec import InputSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

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
