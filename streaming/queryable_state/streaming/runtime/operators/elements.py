"""The elements of a chunk, as a function sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.columns.arrow_types import to_python
from queryable_state.wire.rows import row_class
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from queryable_state.streaming.runtime.spec import OperatorSpec


def element_reader(spec: OperatorSpec) -> Callable[[pa.RecordBatch], Iterator[Any]]:
    """Reads the elements of a chunk: a `Row` of the value columns, or the one column's value."""
    info = spec.value_type
    if info.kind != Kind.ROW:
        column = spec.value_columns[0]
        return lambda batch: iter(to_python(batch.column(column), info))
    return _row_reader(spec.value_columns, info)


def _row_reader(
    columns: tuple[str, ...], info: TypeInfo
) -> Callable[[pa.RecordBatch], Iterator[Any]]:
    make = row_class(tuple(field.name for field in info.fields))
    types = [field.type for field in info.fields]

    def read(batch: pa.RecordBatch) -> Iterator[Any]:
        values = [
            to_python(batch.column(name), of) for name, of in zip(columns, types, strict=True)
        ]
        return map(make, zip(*values, strict=True))

    return read
