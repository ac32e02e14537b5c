"""Output columns of the keys of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from queryable_state.streaming.runtime.columns.arrow_types import to_arrow_value
from queryable_state.wire.arrow.arrow_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.wire.schema.types import Field


def key_columns(keys: Sequence[Any], fields: Sequence[Field]) -> list[pa.Array]:
    """The columns of keys as functions see them: one of bare keys, or one for each part."""
    columns: list[Any] = [keys] if len(fields) == 1 else list(zip(*keys, strict=True))
    arrays = []
    for values, field in zip(columns, fields, strict=True):
        convert = to_arrow_value(field.type)
        if convert is not None:
            values = [convert(value) for value in values]
        arrays.append(pa.array(values, type=arrow_type(field.type)))
    return arrays
