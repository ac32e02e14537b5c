"""States that an operator will register, as the driver learns them before the job starts."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.operator_state.descriptors import BroadcastStateDescriptor
from queryable_state.streaming.runtime.aggregates.aggregate import Aggregate
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
from queryable_state.streaming.runtime.operator_states.checkpoint_hooks import (
    declared_operator_states,
)
from queryable_state.streaming.runtime.operators.context import DeclaringContext
from queryable_state.streaming.runtime.operators.operator_run import OpenFunctions
from queryable_state.streaming.runtime.operators.operators import (
    BroadcastProcess,
    KeyedBatchProcess,
    KeyedBroadcastProcess,
    KeyedCoProcess,
    KeyedProcess,
    LatestValueSink,
    Operator,
    Reduce,
    ReducingSink,
    UnkeyedStep,
)
from queryable_state.streaming.runtime.stateless.element_context import StatelessContext
from queryable_state.streaming.runtime.timers.timer_descriptor import TimerDescriptor
from queryable_state.streaming.runtime.vectorised.batch_context import DeclaringBatchContext
from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
from queryable_state.streaming.runtime.windows.window_states import WindowStates
from queryable_state.streaming.stateless.timers import has_timers
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec


_log = logging.getLogger("queryable_state.streaming")


_Unkeyed = BroadcastProcess | UnkeyedStep
_RowFunction = KeyedProcess | KeyedCoProcess | KeyedBroadcastProcess | _Unkeyed
_WithFunction = _RowFunction | KeyedBatchProcess | WindowOperator


def declared_states(operator: Operator) -> list[StateDescriptor]:
    """The states an operator will register.

    To learn those of a user's function, a copy of it is initialized with empty operator states,
    opened and closed.
    """
    match operator:
        case (
            KeyedProcess()
            | KeyedCoProcess()
            | KeyedBroadcastProcess()
            | BroadcastProcess()
            | UnkeyedStep()
        ):
            return _declared_by_function(operator)
        case KeyedBatchProcess(function):
            batch_context = DeclaringBatchContext(DeclaringContext())
            copied = copy.deepcopy(function)
            with OpenFunctions(f"function {type(function).__name__}") as functions:
                functions.open(copied, batch_context)
            return batch_context.descriptors
        case LatestValueSink():
            return operator.descriptors
        case WindowOperator():
            copied_operator = copy.deepcopy(operator)
            with OpenFunctions("the functions of a window operator") as functions:
                return WindowStates(copied_operator, DeclaringContext(), functions).descriptors
        case WindowedAggregate():
            return [operator.descriptor, operator.timers]
        case Reduce() | ReducingSink() | Aggregate():
            return [operator.descriptor]
    raise InvalidRequestError(f"{operator!r} is not an operator")


def _declared_by_function(operator: _RowFunction) -> list[StateDescriptor]:
    is_keyed = not isinstance(operator, _Unkeyed)
    context = DeclaringContext() if is_keyed else StatelessContext()
    function = copy.deepcopy(operator.function)
    where = f"function {type(function).__name__}"
    keyed = context if is_keyed else None
    with OpenFunctions(where) as functions:
        functions.close_at_end(function)
        operator_states = declared_operator_states(function, keyed, where)
        functions.open(function, context)
    if isinstance(operator, KeyedBroadcastProcess | BroadcastProcess):
        broadcast = map(BroadcastStateDescriptor.of, operator.descriptors)
        operator_states = [*broadcast, *operator_states]
    timers = [TimerDescriptor()] if is_keyed and has_timers(operator.function) else []
    return [*context.descriptors, *operator_states, *timers]


def driver_declared_states(operator: Operator, name: str) -> list[StateDescriptor] | None:
    """The states an operator will register; None if the driver cannot determine them, because the
    function's `open` needs resources of an executor."""
    try:
        return declared_states(operator)
    except Exception as problem:
        refused = isinstance(problem, QueryableStateError)
        if not isinstance(operator, _WithFunction) or (
            refused and not isinstance(problem, UserFunctionError)
        ):
            raise
        _log.debug("operator %s cannot be opened in the driver: %r", name, problem)
        return None


_MOST = 256
_known: dict[tuple[bytes, str], Sequence[StateDescriptor]] = {}
"""By run and operator uid, for the tasks of this process."""


@dataclass(frozen=True)
class ExpectedStates:
    """The states of one operator in one run.

    The first task of a process that needs them opens a copy of the function with empty states, as
    the driver does.
    """

    key: tuple[bytes, str]
    pristine: Operator | None
    """A copy from before the function ran; None: the states are known."""

    @staticmethod
    def of(run_id: bytes, spec: OperatorSpec) -> ExpectedStates:
        """Prepares for `get`; called before the function runs."""
        key = (run_id, spec.uid)
        return ExpectedStates(key, None if key in _known else copy.deepcopy(spec.operator))

    def get(self) -> Sequence[StateDescriptor]:
        """The descriptors of all states."""
        if self.key not in _known:
            assert self.pristine is not None
            if len(_known) >= _MOST:
                _known.clear()
            _known[self.key] = declared_states(self.pristine)
        return _known[self.key]
