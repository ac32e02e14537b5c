"""Feed of an operator: its rows as chunks, in the order in which the operator reads them.

Rows of a batch are read as they arrive if the operator has one input without an order. Otherwise
the task holds the rows of the batch: an operator with an order reads them sorted, and an operator
with several inputs reads first all broadcast elements, then its other inputs one after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from queryable_state.streaming.runtime.columns.batch_coalescing import ChunkBuffer
from queryable_state.streaming.runtime.columns.ordered_rows import HeldRows, in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from queryable_state.streaming.runtime.operators.operator_run import OperatorRun, Output


class OperatorFeed:
    """The rows of one operator in one task. Leaving the context releases held rows."""

    def __init__(self, run: OperatorRun) -> None:
        spec = run.spec
        self._run = run
        self._numbers: dict[int, list[int]] = {}
        for number, each in enumerate(spec.inputs):
            self._numbers.setdefault(each.place, []).append(number)
        self._chunk_rows = spec.settings.chunk_rows
        self._chunks = ChunkBuffer(self._chunk_rows)
        held = len(spec.inputs) > 1 or (run.reads_in_order and bool(spec.input.order))
        self._held = [HeldRows() for _ in spec.inputs] if held else []

    def add(self, place: int, batch: pa.RecordBatch) -> Iterator[Output]:
        """Processes rows of one input of the stage, or holds them; ignores other inputs' rows."""
        for number in self._numbers.get(place, ()):
            if self._held:
                self._held[number].add(batch)
                continue
            for chunk in self._chunks.add(batch):
                yield from self._run.process(number, chunk)

    def finish(self) -> Iterator[Output]:
        """Processes all rows that are left, then finishes the operator."""
        for chunk in self._chunks.flush():
            yield from self._run.process(0, chunk)
        inputs = self._run.spec.inputs
        for number in sorted(range(len(self._held)), key=lambda n: not inputs[n].is_broadcast):
            rows = inputs[number]
            order = rows.order if self._run.reads_in_order else ()
            for chunk in in_order(self._held[number], order, rows.split_column, self._chunk_rows):
                yield from self._run.process(number, chunk)
            self._held[number].close()
        yield from self._run.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for held in self._held:
            held.close()
