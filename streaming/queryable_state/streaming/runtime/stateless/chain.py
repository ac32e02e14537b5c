"""Chain of steps without state, executed in one Spark task per partition.

Elements pass from step to step as Python objects. A step whose output type is a row passes rows of
that type, as the next step would receive them from another task.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from queryable_state.streaming.functions import Function, UserFunctionError
from queryable_state.streaming.runtime.columns.event_time import (
    EVENT_TIME_COLUMN,
    EVENT_TIME_FIELD,
    CurrentTime,
)
from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows
from queryable_state.streaming.runtime.operators.operator_run import OpenFunctions
from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.runtime.stateless.element_context import (
    ChainContext,
    ChainRuntimeContext,
)
from queryable_state.streaming.runtime.stateless.elements import ElementReader
from queryable_state.streaming.runtime.stateless.steps import StepRun
from queryable_state.streaming.runtime.user_code import shown
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.rows import row_maker, row_values
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from queryable_state.streaming.runtime.stateless.steps import Step

_PIECE_ROWS: Final = 1024
"""Elements between two checks for full output batches; bounds the buffered outputs."""
MAIN: Final = 0


@dataclass(frozen=True, kw_only=True)
class ChainInput:
    """Rows of one stream that a chain reads."""

    fields: tuple[Field, ...]
    """Columns of the elements."""
    element_type: TypeInfo
    """A ROW of the columns; else the type of the only column."""
    event_time: str = ""
    """The column with the elements' timestamps; empty: the chain does not need them, or they have
    none."""

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns of the rows: those of the elements, then the internal event-time column."""
        is_internal = self.event_time == EVENT_TIME_COLUMN
        return (*self.fields, *((EVENT_TIME_FIELD,) if is_internal else ()))


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """A step of a chain."""

    name: str
    step: Step
    output_type: TypeInfo


@dataclass(frozen=True, kw_only=True)
class KeySpec:
    """The key that a chain adds to each element of its main output."""

    step: Step
    name: str
    fields: tuple[Field, ...]
    """The key's columns."""
    value_type: TypeInfo
    """Type of the function's results: a ROW with one field per column; else the type of the only
    column."""


@dataclass(frozen=True, kw_only=True)
class ChainSpec:
    """A chain; pickled into each of its tasks."""

    inputs: tuple[ChainInput, ...]
    """The streams that the first step reads."""
    steps: tuple[StepSpec, ...]
    """May be empty if the chain only adds keys."""
    keys: KeySpec | None = None
    side_outputs: tuple[tuple[str, TypeInfo], ...] = ()
    """Id and type of the last step's side outputs that are read."""
    parts: tuple[int, ...] = (MAIN,)
    """Numbers of the outputs that are read; side output i has the number i + 1."""
    emits_event_time: bool = False
    """True if the rows of all outputs have the internal event-time column, behind the elements."""
    parallelism: int = 1
    output_rows: int

    @functools.cached_property
    def input_layout(self) -> TaggedRows | None:
        """The layout of the input rows; None: there is one input, whose rows have no tag."""
        return TaggedRows.of([each.columns for each in self.inputs]) if self.inputs[1:] else None

    @functools.cached_property
    def output_layout(self) -> TaggedRows | None:
        """The layout of the output rows; None: there is one output, whose rows have no tag."""
        return TaggedRows.of([*map(self.part_fields, self.parts)]) if self.parts[1:] else None

    @property
    def output_fields(self) -> tuple[Field, ...]:
        """Columns of the output rows."""
        tagged = self.output_layout
        return self.part_fields(self.parts[0]) if tagged is None else tagged.fields

    @property
    def output_type(self) -> TypeInfo:
        """Type of the main output's elements."""
        return self.steps[-1].output_type if self.steps else self.inputs[0].element_type

    def part_fields(self, number: int) -> tuple[Field, ...]:
        """Columns of an output."""
        time = (EVENT_TIME_FIELD,) if self.emits_event_time else ()
        if number != MAIN:
            return (*columns_of(self.side_outputs[number - 1][1]), *time)
        keys = () if self.keys is None else self.keys.fields
        return (*columns_of(self.output_type), *time, *keys)


class ChainTask:
    """A chain in one task, from input batches to output batches."""

    def __init__(self, spec: ChainSpec, subtask: int, where: str = "") -> None:
        self._spec = spec
        self._subtask = subtask
        self._suffix = where
        self._time = CurrentTime()
        self._context = ChainContext(self._time)
        timed = spec.emits_event_time
        self._main = self._outputs(
            spec.output_type, spec.steps[-1].name if spec.steps else "", timed=timed
        )
        self._sides = {
            tag: self._outputs(info, f"{spec.steps[-1].name}, side output {tag}", timed=timed)
            for number, (tag, info) in enumerate(spec.side_outputs, start=1)
            if number in spec.parts
        }

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Opens the functions, yields the outputs, and closes the functions in any case."""
        with ExitStack() as stack:
            runs = [
                self._opened(each.name, each.step, stack)
                for each in (*self._spec.steps, *([self._spec.keys] if self._spec.keys else ()))
            ]
            keys = runs.pop() if self._spec.keys is not None else None
            if keys is not None and not runs:
                yield from self._with_keys_only(batches, keys)
                return
            yield from self._processed(batches, runs, keys)

    def _opened(self, name: str, step: Step, stack: ExitStack) -> StepRun:
        where = self._where(name)
        functions = stack.enter_context(OpenFunctions(where))
        if isinstance(step.function, Function):
            context = ChainRuntimeContext(
                name=name, subtask=self._subtask, parallelism=self._spec.parallelism
            )
            functions.open(step.function, context)
        return StepRun(step, where, self._context)

    def _processed(
        self, batches: Iterable[pa.RecordBatch], runs: Sequence[StepRun], keys: StepRun | None
    ) -> Iterator[pa.RecordBatch]:
        is_read = MAIN in self._spec.parts
        made_keys: list[Any] = []
        # Side outputs do not end a piece, so only the end of an input batch bounds them.
        for elements in self._elements(batches):
            outputs = self._outputs_of(elements, runs)
            while piece := self._main.take(outputs, _PIECE_ROWS, self._time):
                if not is_read:
                    self._main.drain()
                elif keys is not None:
                    made_keys += keys.outputs(piece, {})
                if self._main.is_full:
                    yield from self._main_batches(made_keys)
            for tag in self._sides:
                yield from self._side_batches(tag, only_full=True)
        yield from self._main_batches(made_keys)
        for tag in self._sides:
            yield from self._side_batches(tag, only_full=False)

    def _outputs_of(self, elements: Iterator[Any], runs: Sequence[StepRun]) -> Iterator[Any]:
        """The main outputs of the last step; its side outputs go to their buffers."""
        sides = {tag: outputs.appender(self._time) for tag, outputs in self._sides.items()}
        for number, (run, each) in enumerate(zip(runs, self._spec.steps, strict=True)):
            is_last = number == len(runs) - 1
            elements = run.outputs(elements, sides if is_last else {})
            if not is_last and each.output_type.kind == Kind.ROW:
                elements = self._rows(elements, each)
        return elements

    def _with_keys_only(
        self, batches: Iterable[pa.RecordBatch], keys: StepRun
    ) -> Iterator[pa.RecordBatch]:
        """Adds the key columns to the input's columns, which are not converted."""
        (source,) = self._spec.inputs
        read = ElementReader(source.fields, source.element_type)
        for batch in batches:
            if batch.num_rows:
                made = list(keys.outputs(read(batch), {}))
                yield self._keyed(batch.columns, self._key_columns(made))

    def _elements(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Iterator[Any]]:
        """The elements of each batch of an input; the context moves with them."""
        context, layout = self._context, self._spec.input_layout
        readers = [ElementReader(each.fields, each.element_type) for each in self._spec.inputs]
        for batch in batches:
            if not batch.num_rows:
                continue
            for stream, rows in [(0, batch)] if layout is None else layout.split(batch):
                context.stream = stream
                event_time = self._spec.inputs[stream].event_time
                yield self._time.over(readers[stream](rows), rows, event_time)

    def _rows(self, elements: Iterable[Any], spec: StepSpec) -> Iterator[Any]:
        """The outputs of a step as rows of its output type."""
        info = spec.output_type
        make, values = row_maker(info), row_values(info, "output", SerializationError)
        made = make([None] * len(info.fields)).__class__ if info.python_class is None else None
        for element in elements:
            if element.__class__ is made:
                yield element
                continue
            try:
                row = make(values(element))
            except (SerializationError, TypeError, ValueError) as problem:
                raise UserFunctionError(
                    f"{self._where(spec.name)}: the output {shown(element)} is not a row of its "
                    f"output type {info}: {problem}"
                ) from problem
            yield row

    def _main_batches(self, keys: list[Any]) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in self._main.all_batches():
            if self._spec.keys is not None:
                made = keys[start : start + batch.num_rows]
                start += batch.num_rows
                batch = self._keyed(batch.columns, self._key_columns(made))
            yield self._tagged(MAIN, batch)
        keys.clear()

    def _side_batches(self, tag: str, *, only_full: bool) -> Iterator[pa.RecordBatch]:
        outputs = self._sides[tag]
        number = [each for each, _ in self._spec.side_outputs].index(tag) + 1
        for batch in outputs.full_batches() if only_full else outputs.all_batches():
            yield self._tagged(number, batch)

    def _key_columns(self, keys: list[Any]) -> Sequence[pa.Array]:
        spec = self._spec.keys
        assert spec is not None
        return self._outputs(spec.value_type, spec.name).batch(keys).columns  # type: ignore[no-any-return]

    def _keyed(self, columns: Sequence[pa.Array], keys: Sequence[pa.Array]) -> pa.RecordBatch:
        names = [field.name for field in self._spec.part_fields(MAIN)]
        return pa.RecordBatch.from_arrays([*columns, *keys], names=names)

    def _tagged(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        layout = self._spec.output_layout
        if layout is None:
            return batch
        return layout.tagged(self._spec.parts.index(number), batch)

    def _outputs(self, info: TypeInfo, name: str, *, timed: bool = False) -> Outputs:
        return Outputs(info, self._spec.output_rows, self._where(name), timed=timed)

    def _where(self, name: str) -> str:
        return f"operator {name!r}{self._suffix}"
