"""Buffers of the side outputs of one operator in one task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.stateless.output_tag import tagged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec


class SideOutputs:
    """The side outputs that are read; those of other tags are dropped."""

    def __init__(self, spec: OperatorSpec, where: str) -> None:
        self._outputs = {
            tag.tag_id: Outputs(
                tag.type_info, spec.settings.output_rows, f"{where}, side output {tag.tag_id!r}"
            )
            for tag in spec.side_outputs
        }

    def take(self, rows: list[Any], start: int) -> None:
        """Takes the side outputs out of a function's outputs from this index on."""
        tags = [tagged(row) for row in rows[start:]]
        if not any(tags):
            return
        main = []
        for row, tag in zip(rows[start:], tags, strict=True):
            if tag is None:
                main.append(row)
            elif tag.tag_id in self._outputs:
                self._outputs[tag.tag_id].rows.append(row[1])
        rows[start:] = main

    def batches(self, *, only_full: bool) -> Iterator[Output]:
        """The rows of each side output, under the output's number."""
        for number, outputs in enumerate(self._outputs.values(), start=1):
            for batch in outputs.full_batches() if only_full else outputs.all_batches():
                yield number, batch
