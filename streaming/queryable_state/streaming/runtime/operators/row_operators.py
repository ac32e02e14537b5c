"""Row-by-row execution of Python functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import Function, UserFunctionError
from queryable_state.streaming.runtime.columns.arrow_types import to_python
from queryable_state.streaming.runtime.columns.batch_coalescing import gathered
from queryable_state.streaming.runtime.operators.context import DeclaringContext, ElementContext
from queryable_state.streaming.runtime.operators.open_functions import OpenFunctions
from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.states.expiring.expiring_values import ExpiringReducing
from queryable_state.streaming.runtime.states.key_table import shown_key
from queryable_state.streaming.runtime.states.task_states import TaskStates, where
from queryable_state.streaming.runtime.states.value_states import CachedReducing
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.rows import row_class
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity


_NO_ITERABLES_OF_OUTPUTS = frozenset((str, bytes, dict))
_PIECE_ROWS = 1024
"""Rows between two checks for full output batches; bounds the buffered outputs."""


def element_reader(spec: OperatorSpec) -> Callable[[pa.RecordBatch], Iterator[Any]]:
    """A reader of a chunk's elements: a `Row` of the value columns, or the only column's value."""
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


def run_process(
    function: KeyedProcessFunction,
    spec: OperatorSpec,
    task: TaskIdentity,
    access: StateAccess,
    batches: Iterator[pa.RecordBatch],
) -> Generator[pa.RecordBatch, None, None]:
    """Opens the function, runs it over the elements, closes it, and prepares the state."""
    context = _context(spec, task)
    with OpenFunctions(where(spec, task)) as functions:
        functions.open(function, context)
        context.end_declarations()
        states = list(context.states.values())
        for state in states:
            _open_function(state.descriptor, functions, context)
        owned = TaskStates(spec, task, access, states)
        owned.begin()
        yield from _process(function, spec, owned, context, batches)
        changes = owned.changes()
    owned.prepare(changes)


def _context(spec: OperatorSpec, task: TaskIdentity) -> DeclaringContext:
    return DeclaringContext(
        name=spec.name,
        subtask=task.subtask,
        parallelism=spec.parallelism,
        max_parallelism=spec.max_parallelism,
    )


def _open_function(
    descriptor: StateDescriptor, functions: OpenFunctions, context: DeclaringContext
) -> None:
    """Opens the reduce or aggregate function of a state, unless it is a plain callable."""
    if isinstance(descriptor.function, Function):
        functions.open(descriptor.function, context)


def _process(
    function: KeyedProcessFunction,
    spec: OperatorSpec,
    owned: TaskStates,
    context: DeclaringContext,
    batches: Iterator[pa.RecordBatch],
) -> Generator[pa.RecordBatch, None, None]:
    outputs = Outputs(spec, owned.where)
    read = element_reader(spec)
    current_key = owned.current_key
    element_context = ElementContext(
        current_key, owned.keys, owned.batch_timestamp_ms, owned.watermark_ms
    )
    process = function.process_element
    for batch in gathered(batches, spec.settings.chunk_rows):
        slots = owned.start_chunk(batch).tolist()
        elements = read(batch)
        for state in context.states.values():
            state.enter()
        for start in range(0, len(slots), _PIECE_ROWS):
            extend = outputs.rows.extend
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
                _name_element(error, spec, owned)
                raise
            except Exception as error:
                raise _user_error(error, "process_element", spec, owned) from error
            yield from outputs.full_batches()
        for state in context.states.values():
            state.leave()
    yield from outputs.all_batches()


def run_reduce(
    descriptor: ReducingStateDescriptor,
    spec: OperatorSpec,
    task: TaskIdentity,
    access: StateAccess,
    batches: Iterator[pa.RecordBatch],
    *,
    emit: bool,
) -> Generator[pa.RecordBatch, None, None]:
    """Reduces the elements of each key; `emit` emits the reduced value for each element."""
    context = _context(spec, task)
    context.end_declarations()
    with OpenFunctions(where(spec, task)) as functions:
        _open_function(descriptor, functions, context)
        expires = descriptor.ttl_config is not None
        state = ExpiringReducing(descriptor) if expires else CachedReducing(descriptor)
        owned = TaskStates(spec, task, access, [state])
        owned.begin()
        yield from _reduce(state, spec, owned, batches, emit=emit)
        changes = owned.changes()
    owned.prepare(changes)


def _reduce(
    state: CachedReducing,
    spec: OperatorSpec,
    owned: TaskStates,
    batches: Iterator[pa.RecordBatch],
    *,
    emit: bool,
) -> Generator[pa.RecordBatch, None, None]:
    outputs = Outputs(spec, owned.where)
    read = element_reader(spec)
    reduced, held, give = state.reduced, state.held, state.give
    current_key = owned.current_key
    for batch in gathered(batches, spec.settings.chunk_rows):
        slots = owned.start_chunk(batch).tolist()
        cached_values = state.load_chunk()
        state.enter()
        emitted = outputs.rows.append if emit else _drop
        try:
            for slot, element in zip(slots, read(batch), strict=True):
                current_key.slot = slot
                cached = cached_values[slot] = held(slot, reduced(cached_values[slot], element))
                emitted(give(cached))
        except QueryableStateError as error:
            _name_element(error, spec, owned)
            raise
        except Exception as error:
            raise _user_error(error, "the reduce function", spec, owned) from error
        state.dirty.update(slots)
        yield from outputs.full_batches()
    yield from outputs.all_batches()


def _drop(_: Any) -> None:
    """Discards an output: a sink emits nothing."""


def _user_error(
    error: Exception, what: str, spec: OperatorSpec, owned: TaskStates
) -> UserFunctionError:
    return UserFunctionError(
        f"{owned.where}: {what} failed for key {_current_key(spec, owned)}: "
        f"{type(error).__name__}: {error}"
    )


def _name_element(error: QueryableStateError, spec: OperatorSpec, owned: TaskStates) -> None:
    error.add_note(f"{owned.where}, at an element of key {_current_key(spec, owned)}")


def _current_key(spec: OperatorSpec, owned: TaskStates) -> str:
    return shown_key(owned.keys.keys[owned.current_key.slot], spec.key_type)
