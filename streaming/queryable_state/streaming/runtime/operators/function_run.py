"""Execution of operators with user functions: elements of a chunk, row by row."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import Function, UserFunctionError
from queryable_state.streaming.runtime.columns.arrow_types import to_python
from queryable_state.streaming.runtime.columns.event_time import CurrentTime, timestamps
from queryable_state.streaming.runtime.operator_states.checkpoint_hooks import CheckpointHooks
from queryable_state.streaming.runtime.operator_states.operator_state_store import (
    TaskOperatorStateStore,
)
from queryable_state.streaming.runtime.operators.context import (
    DeclaringContext,
    ElementContext,
    KeyedTimerService,
    new_state,
)
from queryable_state.streaming.runtime.operators.declared_states import ExpectedStates
from queryable_state.streaming.runtime.operators.operator_run import MAIN, OperatorRun
from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.operators.side_outputs import SideOutputs
from queryable_state.streaming.runtime.stateless.element_context import StatelessContext
from queryable_state.streaming.runtime.states.key_table import shown_key
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.streaming.runtime.states.value_states import CachedReducing
from queryable_state.streaming.runtime.user_code import at_place, described, shown
from queryable_state.streaming.stateless.output_tag import OutputTag
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.rows import row_maker
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.functions import ReducingStateDescriptor
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.input_spec import InputSpec
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
    from queryable_state.streaming.stateless.metrics import TaskMetrics


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


class RowRun(OperatorRun):
    """An operator with user functions, which are open from `begin` to `encode`."""

    reads_in_order = True

    def __init__(
        self, spec: OperatorSpec, task: TaskIdentity, access: StateAccess, *, keyed: bool = True
    ) -> None:
        """`keyed`: the functions may have keyed states."""
        super().__init__(spec, task, access)
        self._context = (DeclaringContext if keyed else StatelessContext)(
            name=spec.name,
            subtask=task.subtask,
            parallelism=spec.parallelism,
            max_parallelism=spec.max_parallelism,
        )

    def _metrics(self) -> TaskMetrics | None:
        return self._context.metrics

    def _open_function(self, descriptor: StateDescriptor) -> None:
        """Opens the reduce or aggregate function of a state, unless it is a plain callable."""
        if isinstance(descriptor.function, Function):
            self._functions.open(descriptor.function, self._context)

    def _user_error(self, error: Exception, what: str, element: object) -> UserFunctionError:
        return UserFunctionError(
            f"{self.where}: {what} failed for key {self.shown_key}: {described(error)}, at the "
            f"element {shown(element)}"
        )

    def _name_element(self, error: QueryableStateError, element: object) -> None:
        error.add_note(
            f"{self.where}, key {self.shown_key}, at the element {shown(element)}{at_place(error)}"
        )

    @property
    def shown_key(self) -> str:
        """The current key, for error texts."""
        return shown_key(self.owned.keys.keys[self.owned.current_key.slot], self.spec.key_type)


class FunctionRun(RowRun):
    """An operator with the function of a user, composed of the parts that the function has."""

    def __init__(
        self,
        function: Function,
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
        *,
        keyed: bool = True,
        checkpoints: bool = True,
    ) -> None:
        """`keyed`: the function may have keyed states. `checkpoints`: it may have operator state or
        follow checkpoints."""
        super().__init__(spec, task, access, keyed=keyed)
        self._opened = function
        self._expected: ExpectedStates | None = None
        self._checkpoints: CheckpointHooks | None = None
        """The hooks of checkpoints, with the operator states; None: the function has none."""
        if checkpoints:
            self._checkpoints = CheckpointHooks(
                function,
                TaskOperatorStateStore(spec.name, self._begin_early),
                self._context if keyed else None,
                batch_id=task.batch_id,
                where=self.where,
            )
        self._timers: TaskTimers | None = None
        """The timers of the function; None: it has none."""
        self.time = CurrentTime()
        """The timestamp of the current element or timer."""
        self.outputs = Outputs(
            spec.output_type, spec.settings.output_rows, self.where, timed=spec.emits_event_time
        )
        """The buffered outputs."""

    @functools.cached_property
    def _sides(self) -> SideOutputs:
        return SideOutputs(self.spec, self.where)

    def open(self) -> None:
        """Initializes and opens the function."""
        checkpoints = self._checkpoints
        self._owned = TaskStates(
            self.spec,
            self._task,
            self._access,
            self.states,
            () if checkpoints is None else checkpoints.store.states.values(),
            self._timers,
        )
        if checkpoints is not None and checkpoints.has_operator_state:
            self._expected = ExpectedStates.of(self._task.run_id, self.spec)
        self._functions.close_at_end(self._opened)
        if checkpoints is not None:
            checkpoints.initialize()
        self._open()

    @property
    def states(self) -> Collection[CachedState]:
        """The keyed states of the function."""
        return self._context.states.values()

    def begin(self) -> None:
        """Pins the version, and notifies the function of checkpoints."""
        super().begin()
        if self._checkpoints is not None:
            self._checkpoints.notify(self.owned)

    def _begin_early(self) -> None:
        """Pins the version while the function still declares states, because it reads one."""
        assert self._expected is not None
        self.owned.begin(self._expected.get())

    def _timer_service(self) -> KeyedTimerService:
        """The timer service of the current key, after `begin`."""
        return KeyedTimerService(self.owned, self._timers)

    def _open(self) -> Sequence[CachedState]:
        context = self._context
        self._functions.open(self._opened, context)
        context.end_declarations()
        states = list(context.states.values())
        for state in states:
            self._open_function(state.descriptor)
        return states

    def encode(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.snapshot(self.owned.batch_timestamp_ms)
        super().encode()

    def finish(self) -> Iterator[Output]:
        for rows in self.outputs.all_batches():
            yield MAIN, rows
        if self.spec.side_outputs:
            yield from self._sides.batches(only_full=False)

    def _processed(
        self,
        process: Callable[[Any, Any], Any],
        context: object,
        slots: Sequence[int],
        elements: Iterator[Any],
    ) -> Iterator[Output]:
        """Calls `process` for each element of a keyed input, whose keys have these slots."""
        current_key, outputs = self.owned.current_key, self.outputs
        extend = outputs.extender(self.time)
        for state in self.states:
            state.enter()
        for start in range(0, len(slots), _PIECE_ROWS):
            emitted = len(outputs.rows)
            element = None
            try:
                # `zip` must read slots first: at their end it must not consume an element.
                for slot, element in zip(  # noqa: B905
                    slots[start : start + _PIECE_ROWS], elements
                ):
                    current_key.slot = slot
                    result = process(element, context)
                    if result is not None:
                        if result.__class__ in _NO_ITERABLES_OF_OUTPUTS:
                            raise _not_outputs(result)
                        extend(result)
            except QueryableStateError as error:
                self._name_element(error, element)
                raise
            except Exception as error:
                raise self._user_error(error, process.__name__, element) from error
            yield from self.emitted(emitted)
        for state in self.states:
            state.leave()

    def emitted(self, start: int) -> Iterator[Output]:
        """Full batches of the outputs; takes the side outputs out of those from this index on."""
        if OutputTag.exists:
            self._sides.take(self.outputs, start)
            yield from self._sides.batches(only_full=True)
        for rows in self.outputs.full_batches():
            yield MAIN, rows


class ProcessRun(FunctionRun):
    """Runs a process function without timers over the elements."""

    def __init__(
        self,
        function: Function,
        methods: Sequence[Callable[[Any, Any], Iterable[Any] | None]],
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
        *,
        checkpoints: bool,
    ) -> None:
        """`methods` has the function's method for each input."""
        super().__init__(function, spec, task, access, checkpoints=checkpoints)
        self._methods = methods
        self._read = [element_reader(rows) for rows in spec.inputs]

    def begin(self) -> None:
        super().begin()
        owned = self.owned
        self._element_context = ElementContext(
            owned.current_key,
            owned.keys,
            self._timer_service,
            self.time,
            watermark_ms=owned.watermark_ms,
            pickled_keys=self.spec.pickled_keys,
        )

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        rows = self.spec.inputs[number]
        slots = self.owned.start_chunk(batch, rows).tolist()
        elements = self._read[number](batch)
        self.time.ms = None
        if rows.event_time:
            elements = self.time.over(elements, batch, rows.event_time)
        yield from self._processed(self._methods[number], self._element_context, slots, elements)


class ReduceRun(RowRun):
    """Reduces the elements of each key; `emit` emits the reduced value for each element, with the
    element's timestamp."""

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
        self._state = new_state(descriptor, CachedReducing)
        self._outputs = (
            Outputs(
                spec.output_type, spec.settings.output_rows, self.where, timed=spec.emits_event_time
            )
            if emit
            else None
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
        element = None
        try:
            for slot, element in zip(slots, self._read(batch), strict=True):
                current_key.slot = slot
                cached = cached_values[slot] = held(slot, reduced(cached_values[slot], element))
                emitted(give(cached))
        except QueryableStateError as error:
            self._name_element(error, element)
            raise
        except Exception as error:
            raise self._user_error(error, "the reduce function", element) from error
        state.dirty.update(slots)
        if outputs is not None:
            if outputs.times is not None:
                outputs.times.extend(self._times(number, batch))
            for rows in outputs.full_batches():
                yield MAIN, rows

    def _times(self, number: int, batch: pa.RecordBatch) -> list[int | None]:
        event_time = self.spec.inputs[number].event_time
        if not event_time:
            return [None] * batch.num_rows
        return timestamps(batch.column(event_time)).to_pylist()  # type: ignore[no-any-return]

    def finish(self) -> Iterator[Output]:
        if self._outputs is not None:
            for rows in self._outputs.all_batches():
                yield MAIN, rows


def _drop(_: Any) -> None:
    """Discards an output: a sink emits nothing."""


def outputs_of(result: Any) -> Iterable[Any]:
    """The outputs that a function returned; TypeError for a single output that is iterable."""
    if result.__class__ in _NO_ITERABLES_OF_OUTPUTS:
        raise _not_outputs(result)
    return result  # type: ignore[no-any-return]


def _not_outputs(result: object) -> TypeError:
    return TypeError(
        f"it returned a {type(result).__name__}, whose items would be emitted one by one: yield "
        "outputs, or return a list of outputs"
    )
