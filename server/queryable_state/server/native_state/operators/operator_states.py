"""The states of all stateful operators of a query."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.server.native_state.operators import operator_names as spark
from queryable_state.server.native_state.operators.aggregation import aggregation
from queryable_state.server.native_state.operators.deduplication import (
    deduplication,
    deduplication_within_watermark,
)
from queryable_state.server.native_state.operators.groups_with_state import groups_with_state
from queryable_state.server.native_state.operators.joins import stream_join
from queryable_state.server.native_state.operators.limit import limit
from queryable_state.server.native_state.operators.session_windows import session_windows
from queryable_state.server.native_state.operators.transform_with_state import (
    state_variables,
    variable_state,
)
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import (
        StateDefinition,
        StateLayout,
    )
    from queryable_state.server.native_state.operators.transform_with_state import StateVariable

_OPERATORS: Mapping[str, Callable[[OperatorTables], list[StateLayout]]] = {
    spark.AGGREGATION: aggregation,
    "StatefulStreamlineAggregate": aggregation,
    spark.SESSIONS: session_windows,
    spark.DEDUPLICATION: deduplication,
    spark.DEDUPLICATION_WITHIN_WATERMARK: deduplication_within_watermark,
    spark.JOIN: stream_join,
    spark.GROUPS: groups_with_state,
    spark.GROUPS_IN_PANDAS: groups_with_state,
    spark.LIMIT: limit,
}
"""By Spark's name in the operator's metadata."""

_TRANSFORM_WITH_STATE = (
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec",
)


class FoundStates(NamedTuple):
    """The readable states of a query, and why others are left out."""

    layouts: list[StateLayout]
    """Each with a queryable name that is unique in the query."""
    refusals: list[QueryableStateError]
    """One for each operator, or state variable, that this version cannot read."""


_NAMES_OF: Mapping[str, tuple[str, ...]] = {
    spark.AGGREGATION: ("aggregation",),
    "StatefulStreamlineAggregate": ("aggregation",),
    spark.SESSIONS: ("sessions",),
    spark.DEDUPLICATION: ("deduplication",),
    spark.DEDUPLICATION_WITHIN_WATERMARK: ("deduplication",),
    spark.JOIN: ("left", "right"),
    spark.GROUPS: ("groups",),
    spark.GROUPS_IN_PANDAS: ("groups",),
    spark.LIMIT: ("limit",),
}
"""The short names of an operator's states, by Spark's name of the operator."""


def states_of(operators: Iterable[OperatorTables], left_out: Iterable[str] = ()) -> FoundStates:
    """The states of a query's operators.

    `left_out` are Spark's names of operators that are not among them: states have the names that
    they would have beside theirs. What this version cannot read does not hide the rest. Raises
    `CorruptDataError` if the checkpoint contradicts itself.
    """
    found = FoundStates([], [])
    for operator in operators:
        for what, make in _makers(operator):
            try:
                found.layouts.extend(make())
            except InvalidRequestError as problem:
                if problem.reason != Reason.UNSUPPORTED:
                    raise
                found.refusals.append(UnsupportedFormatError(f"{what} is left out: {problem}"))
    others = [name for each in left_out for name in _NAMES_OF.get(each, ())]
    names = queryable_names([layout.definition for layout in found.layouts], others)
    for layout, name in zip(found.layouts, names, strict=True):
        layout.definition = replace(layout.definition, queryable_name=name)
    return found


def _makers(operator: OperatorTables) -> Iterator[tuple[str, Callable[[], list[StateLayout]]]]:
    """The parts of an operator that can fail alone: a description, and a function that makes the
    states of the part."""
    number = operator.metadata.operator_id
    if operator.name in _TRANSFORM_WITH_STATE:
        for variable in state_variables(operator):
            what = f"state variable {variable.name!r} of operator {number}"
            yield what, partial(_variable, operator, variable)
    else:
        yield f"operator {number}, {operator.name}", partial(_states, operator)


def _states(operator: OperatorTables) -> list[StateLayout]:
    states = _OPERATORS.get(operator.name)
    if states is None:
        known = sorted((*_OPERATORS, *_TRANSFORM_WITH_STATE))
        raise operator.unsupported(f"an unknown name, known are {', '.join(known)}")
    return states(operator)


def _variable(operator: OperatorTables, variable: StateVariable) -> list[StateLayout]:
    return [variable_state(operator, variable)]


def queryable_names(states: list[StateDefinition], others: Iterable[str] = ()) -> list[str]:
    """Names that are unique in a query, aligned with its states.

    `others` are short names of further states.
    A state has its own name, or that of its operator; where these are not unique, the operator's
    number is added, and for states with names its name.
    """
    short = [state.name or state.operator for state in states]
    uses = Counter([*short, *others])
    return [
        name if uses[name] == 1 else _long_name(state)
        for state, name in zip(states, short, strict=True)
    ]


def _long_name(state: StateDefinition) -> str:
    operator = f"{state.operator}_{state.operator_id}"
    return f"{operator}.{state.name}" if state.name else operator
