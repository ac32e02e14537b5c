"""Rows that are behind the watermark: a side output, or dropped and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from queryable_state.streaming.runtime.columns.event_time import timestamps
from queryable_state.streaming.runtime.columns.value_columns import cast_column
from queryable_state.streaming.runtime.dropped_rows import log_dropped
from queryable_state.wire.arrow.arrow_types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.runtime.aggregates.time_windows import Mask
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.stateless.output_tag import OutputTag


class LateRows:
    """The late rows of one task."""

    def __init__(self, tag: OutputTag | None, spec: OperatorSpec, where: str) -> None:
        """`tag`: the side output of the rows; None: they are dropped."""
        self._tag = tag
        self._spec = spec
        self._where = where
        self._dropped = 0

    def outputs(self, batch: pa.RecordBatch, late: Mask) -> Iterator[Output]:
        """The late rows of a chunk, if the side output is read; counts them if there is none."""
        if self._tag is None:
            self._dropped += int(late.sum())
            return
        if self._tag not in self._spec.side_outputs:
            return
        index = self._spec.side_outputs.index(self._tag)
        rows, read = batch.filter(pa.array(late)), self._spec.input
        fields = self._spec.side_output_fields(index)
        columns = [rows.column(name) for name in read.value_columns]
        if self._spec.emits_event_time:
            columns.append(timestamps(rows.column(read.event_time)))
        arrays = [
            cast_column(column, field.type, f"{self._where}: late column {field.name!r}")
            for column, field in zip(columns, fields, strict=True)
        ]
        yield index + 1, pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(fields))

    def log(self) -> None:
        """Logs the number of dropped rows, at most once a minute for each worker and operator."""
        log_dropped(self._dropped, self._spec.uid, self._where)
