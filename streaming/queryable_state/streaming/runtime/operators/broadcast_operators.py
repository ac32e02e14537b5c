"""Execution of functions of a stream that is connected with a broadcast stream.

The feed passes the elements of the broadcast input first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.operator_state.broadcast_functions import KeyedStateFunction
from queryable_state.streaming.runtime.operator_states.broadcast_contexts import (
    BroadcastElementContext,
    KeyedElementContext,
)
from queryable_state.streaming.runtime.operator_states.broadcast_state import ReadOnlyBroadcastView
from queryable_state.streaming.runtime.operators.function_run import (
    FunctionRun,
    element_reader,
    outputs_of,
)
from queryable_state.streaming.runtime.states.value_states import SingleValueState
from queryable_state.streaming.runtime.timers.timed_run import FunctionTimers
from queryable_state.streaming.runtime.timers.timer_context import BroadcastTimerContext
from queryable_state.streaming.runtime.user_code import at_place, described, shown
from queryable_state.streaming.state import ListState, MapState
from queryable_state.streaming.stateless.timers import has_timers
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from queryable_state.streaming.descriptors import MapStateDescriptor, StateDescriptor
    from queryable_state.streaming.operator_state.broadcast_functions import (
        BroadcastProcessFunction,
        KeyedBroadcastProcessFunction,
    )
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.streaming.runtime.states.task_states import TaskStates


class BroadcastRun(FunctionRun):
    """Runs a broadcast process function, keyed or not.

    If the function has no keys, key columns of its input only distribute the rows.
    """

    def __init__(
        self,
        function: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        descriptors: Sequence[MapStateDescriptor],
        spec: OperatorSpec,
        task: TaskIdentity,
        access: StateAccess,
        *,
        keyed: bool,
    ) -> None:
        """`descriptors` are those that were passed to `broadcast`."""
        super().__init__(function, spec, task, access, keyed=keyed)
        self._keyed = keyed
        self._firing: FunctionTimers | None = None
        if keyed and has_timers(function):
            self._firing = FunctionTimers(self, function)
            self._timers = self._firing.timers
        self._process: Callable[[Any, Any], Any] = function.process_element
        self._process_broadcast: Callable[[Any, Any], Any] = function.process_broadcast_element
        self._readers = [element_reader(rows) for rows in spec.inputs]
        checkpoints = self._checkpoints
        assert checkpoints is not None
        self._broadcast_states = {
            descriptor.name: checkpoints.store.get_broadcast_state(descriptor)
            for descriptor in descriptors
        }

    def begin(self) -> None:
        super().begin()
        owned = self.owned
        self._views = {
            name: ReadOnlyBroadcastView(state) for name, state in self._broadcast_states.items()
        }
        self._service = self._timer_service()
        self._element_context = KeyedElementContext(
            owned, self.time, self._views, self._service, pickled_keys=self.spec.pickled_keys
        )
        self._broadcast_context = BroadcastElementContext(
            owned, self.time, self._broadcast_states, self._apply_to_keyed_state
        )

    def fire_timers(self) -> Iterator[Output]:
        if self._firing is None:
            return iter(())
        context = BroadcastTimerContext(
            self._firing.current,
            self.owned,
            self.time,
            self._views,
            self._service,
            pickled_keys=self.spec.pickled_keys,
        )
        return self._firing.fire(context)

    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        rows = self.spec.inputs[number]
        elements = self.time.over(self._readers[number](batch), batch, rows.event_time)
        if rows.key_columns and self._keyed:
            slots = self.owned.start_chunk(batch, rows).tolist()
            yield from self._processed(self._process, self._element_context, slots, elements)
            return
        self.owned.count_rows(batch, rows)
        process = self._process
        context: object = self._element_context
        if rows.is_broadcast:
            process, context = self._process_broadcast, self._broadcast_context
        outputs = self.outputs
        extend = outputs.extender(self.time)
        for element in elements:
            emitted = len(outputs.rows)
            try:
                result = process(element, context)
                if result is not None:
                    extend(outputs_of(result))
            except QueryableStateError as error:
                error.add_note(
                    f"{self.where}, in {process.__name__}, at the element {shown(element)}"
                    f"{at_place(error)}"
                )
                raise
            except Exception as error:
                raise UserFunctionError(
                    f"{self.where}: {process.__name__} failed for {shown(element)}: "
                    f"{described(error)}"
                ) from error
            yield from self.emitted(emitted)

    def _apply_to_keyed_state(
        self,
        descriptor: StateDescriptor,
        function: KeyedStateFunction[Any] | Callable[[Any, Any], None],
    ) -> None:
        state = self._context.states.get(descriptor.name)
        if state is None or state.descriptor != descriptor:
            known = ", ".join(map(repr, self._context.states)) or "none"
            raise InvalidRequestError(
                f"{self.where}: apply_to_keyed_state was called with {descriptor!r}, but the "
                f"function requested these keyed states in open: {known}",
                reason=Reason.INVALID_REQUEST,
            )
        process = function.process if isinstance(function, KeyedStateFunction) else function
        visit_keys(self.owned, state, self.states, process)


def visit_keys(
    owned: TaskStates,
    state: CachedState,
    states: Collection[CachedState],
    process: Callable[[Any, Any], None],
) -> None:
    """Calls `process(key, state)` once for each key that has the state when it is its turn.

    First the keys with records before the batch, page by page, then all other keys of the task.
    `states` are all keyed states of the task; all may be used in the call.
    """
    visited: set[int] = set()
    for state_to_enter in states:
        state_to_enter.enter()
    for wire_keys in owned.stored_keys(state):
        slots = [slot for slot in owned.add_wire_keys(wire_keys) if slot not in visited]
        visited.update(slots)
        _visit(owned, state, slots, process)
    # The calls may add keys only by their own writes, to which the task has slots already.
    rest = [slot for slot in range(len(owned.keys)) if slot not in visited]
    owned.keys.chunk_slots = rest
    _visit(owned, state, rest, process)
    for state_to_leave in states:
        state_to_leave.leave()


def _visit(
    owned: TaskStates,
    state: CachedState,
    slots: Iterable[int],
    process: Callable[[Any, Any], None],
) -> None:
    keys, current_key = owned.keys.keys, owned.current_key
    for slot in slots:
        current_key.slot = slot
        if _is_present(state):
            process(keys[slot], state)


def _is_present(state: Any) -> bool:
    """True if the current key has the state; does not count as a read of a state with a TTL."""
    if isinstance(state, MapState | ListState):
        return not state.is_empty()
    assert isinstance(state, SingleValueState)
    return state.is_present()
