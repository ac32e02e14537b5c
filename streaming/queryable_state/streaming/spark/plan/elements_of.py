"""Elements of a stream's DataFrame in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.runtime.stateless.elements import ElementReader
from queryable_state.wire.schema.types import Field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.elements import Columns


def elements_of(frame: DataFrame, columns: Columns) -> list[Any]:
    """All elements of a DataFrame of these columns, as functions receive them."""
    element = columns.element_type(columns.names, "the elements")
    fields = (Field(columns.names[0], element),) if columns.bare else columns_of(element)
    read = ElementReader(fields, element)
    return [each for batch in frame.toArrow().to_batches() for each in read(batch)]
