"""Row-by-row execution of Python functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import Function, UserFunctionError
from queryable_state.streaming.runtime.columns.arrow_types import to_python
from queryable_state.streaming.runtime.operators.context import DeclaringContext, ElementContext
from queryable_state.streaming.runtime.operators.open_functions import OpenFunctions
from queryable_state.streaming.runtime.operators.operator_run import MAIN, OperatorRun
from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.operators.side_outputs import SideOutputs
from queryable_state.streaming.runtime.states.key_table import shown_key
from queryable_state.streaming.runtime.states.value_states import CachedReducing
from queryable_state.streaming.runtime.user_code import described
from queryable_state.streaming.stateless.output_tag import OutputTag
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.rows import row_maker
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.input_spec import InputSpec
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity


_NO_ITERABLES_OF_OUTPUTS = frozenset((str, bytes, dict))
_PIECE_ROWS = 1024
"""Rows between two checks for full output batches; bounds the buffered outputs."""


def element_reader(rows: InputSpec) -> Callable[[pa.RecordBatch], Iterator[Any]]:
    """A reader of a chunk's elements.

    They are `Row`s of the value columns, instances of the row type's Python class, or the values
    of the only column.
    """
    info = rows.value_type
    if info.kind != Kind.ROW:
        column = rows.value_columns[0]
        return lambda batch: iter(to_python(batch.column(column), info))
    return _row_reader(rows.value_columns, info)


def _row_reader(
    columns: tuple[str, ...], info: TypeInfo
) -> Callable[[pa.RecordBatch], Iterator[Any]]:
    make = row_maker(info)
    types = [field.type for field in info.fields]

    def read(batch: pa.RecordBatch) -> Iterator[Any]:
        values = [
            to_python(batch.column(name), of) for name, of in zip(columns, types, strict=True)
        ]
        return map(make, zip(*values, strict=True))

    return read


class _RowRun(OperatorRun):
    """An operator with user functions, which are open from `begin` to `encode`."""

    reads_in_order = True

    def __init__(self, spec: OperatorSpec, task: TaskIdentity, access: StateAccess) -> None:
        super().__init__(spec, task, access)
        self._functions = OpenFunctions(self.where)
        self._context = DeclaringContext(
            name=spec.name,
            subtask=task.subtask,
            parallelism=spec.parallelism,
            max_parallelism=spec.max_parallelism,
        )

    def encode(self) -> None:
        super().encode()
        self._functions.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._functions.close(failure)

    def _open_function(self, descriptor: StateDescriptor) -> None:
        """Opens the reduce or aggregate function of a state, unless it is a plain callable."""
        if isinstance(descriptor.function, Function):
            self._functions.open(descriptor.function, self._context)

    def _user_error(self, error: Exception, what: str) -> UserFunctionError:
        return UserFunctionError(
            f"{self.where}: {what} failed for key {self._current_key}: {described(error)}"
        )

    def _name_element(self, error: QueryableStateError) -> None:
        error.add_note(f"{self.where}, at an element of key {self._current_key}")

    @property
    def _current_key(self) -> str:
        return shown_key(self.owned.keys.keys[self.owned.current_key.slot], self.spec.key_type)


class ProcessRun(_RowRun):
    """Runs a process function over the elements."""

    def __init__(
        self,
        function: KeyedProcessFunction,
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
    ) -> None:
        super().__init__(spec, task, access)
        self._function = function
        self._outputs = Outputs(spec.output_type, spec.settings.output_rows, self.where)
        self._sides = SideOutputs(spec, self.where)
        self._read = element_reader(spec.input)

    def _open(self) -> Sequence[CachedState]:
        context = self._context
        self._functions.open(self._function, context)
        context.end_declarations()
        states = list(context.states.values())
        for state in states:
            self._open_function(state.descriptor)
        return states

    def begin(self) -> None:
        super().begin()
        owned = self.owned
        self._element_context = ElementContext(
            owned.current_key,
            owned.keys,
            owned.batch_timestamp_ms,
            owned.watermark_ms,
            pickled_keys=self.spec.pickled_keys,
        )

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        process, element_context = self._function.process_element, self._element_context
        current_key, outputs = self.owned.current_key, self._outputs
        slots = self.owned.start_chunk(batch, self.spec.inputs[number]).tolist()
        elements = self._read(batch)
        for state in self._context.states.values():
            state.enter()
        for start in range(0, len(slots), _PIECE_ROWS):
            extend, emitted = outputs.rows.extend, len(outputs.rows)
            try:
                # `zip` must read slots first: at their end it must not consume an element.
                for slot, element in zip(  # noqa: B905
                    slots[start : start + _PIECE_ROWS], elements
                ):
                    current_key.slot = slot
                    result = process(element, element_context)
                    if result is not None:
                        if result.__class__ in _NO_ITERABLES_OF_OUTPUTS:
                            raise TypeError(
                                f"it returned a {type(result).__name__}, whose items would be "
                                "emitted one by one: yield outputs, or return a list of outputs"
                            )
                        extend(result)
            except QueryableStateError as error:
                self._name_element(error)
                raise
            except Exception as error:
                raise self._user_error(error, "process_element") from error
            if OutputTag.exists:
                self._sides.take(outputs.rows, emitted)
                yield from self._sides.batches(only_full=True)
            for rows in outputs.full_batches():
                yield MAIN, rows
        for state in self._context.states.values():
            state.leave()

    def finish(self) -> Iterator[Output]:
        for rows in self._outputs.all_batches():
            yield MAIN, rows
        yield from self._sides.batches(only_full=False)


class ReduceRun(_RowRun):
    """Reduces the elements of each key; `emit` emits the reduced value for each element."""

    def __init__(
        self,
        descriptor: ReducingStateDescriptor,
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
        *,
        emit: bool,
    ) -> None:
        super().__init__(spec, task, access)
        self._state = CachedReducing(descriptor)
        self._outputs = (
            Outputs(spec.output_type, spec.settings.output_rows, self.where) if emit else None
        )
        self._read = element_reader(spec.input)

    def _open(self) -> Sequence[CachedState]:
        self._context.end_declarations()
        self._open_function(self._state.descriptor)
        return [self._state]

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        state, outputs, current_key = self._state, self._outputs, self.owned.current_key
        reduced, held, give = state.reduced, state.held, state.give
        slots = self.owned.start_chunk(batch, self.spec.inputs[number]).tolist()
        cached_values = state.load_chunk()
        state.enter()
        emitted = _drop if outputs is None else outputs.rows.append
        try:
            for slot, element in zip(slots, self._read(batch), strict=True):
                current_key.slot = slot
                cached = cached_values[slot] = held(slot, reduced(cached_values[slot], element))
                emitted(give(cached))
        except QueryableStateError as error:
            self._name_element(error)
            raise
        except Exception as error:
            raise self._user_error(error, "the reduce function") from error
        state.dirty.update(slots)
        if outputs is not None:
            for rows in outputs.full_batches():
                yield MAIN, rows

    def finish(self) -> Iterator[Output]:
        if self._outputs is not None:
            for rows in self._outputs.all_batches():
                yield MAIN, rows


def _drop(_: Any) -> None:
    """Discards an output: a sink emits nothing."""
