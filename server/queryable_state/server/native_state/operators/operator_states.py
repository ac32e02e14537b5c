"""The states of all stateful operators of a query."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

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
    transform_with_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import (
        StateDefinition,
        StateLayout,
    )

_OPERATORS: Mapping[str, Callable[[OperatorTables], list[StateLayout]]] = {
    "stateStoreSave": aggregation,
    "sessionWindowStateStoreSaveExec": session_windows,
    "dedupe": deduplication,
    "dedupeWithinWatermark": deduplication_within_watermark,
    "symmetricHashJoin": stream_join,
    "flatMapGroupsWithState": groups_with_state,
    "applyInPandasWithState": groups_with_state,
    "transformWithStateExec": transform_with_state,
    "transformWithStateInPandasExec": transform_with_state,
    "globalLimit": limit,
}
"""By Spark's name in the operator's metadata."""


def states_of(operators: Iterable[OperatorTables]) -> list[StateLayout]:
    """The states of a query's operators, each with a name that is unique in the query.

    Raises `UnsupportedFormatError` for an operator or a stored form that is not known.
    """
    layouts = [layout for operator in operators for layout in operator_states(operator)]
    names = queryable_names([layout.definition for layout in layouts])
    for layout, name in zip(layouts, names, strict=True):
        layout.definition = replace(layout.definition, queryable_name=name)
    return layouts


def operator_states(operator: OperatorTables) -> list[StateLayout]:
    """The states of one operator."""
    states = _OPERATORS.get(operator.metadata.name)
    if states is None:
        raise operator.unsupported(
            f"an unknown operator name, known are {', '.join(sorted(_OPERATORS))}"
        )
    return states(operator)


def queryable_names(states: list[StateDefinition]) -> list[str]:
    """Names that are unique in a query, aligned with its states.

    A state has its own name, or that of its operator; where these are not unique, the operator's
    number is added, and for states with names its name.
    """
    short = [state.name or state.operator for state in states]
    uses = Counter(short)
    return [
        name if uses[name] == 1 else _long_name(state)
        for state, name in zip(states, short, strict=True)
    ]


def _long_name(state: StateDefinition) -> str:
    operator = f"{state.operator}_{state.operator_id}"
    return f"{operator}.{state.name}" if state.name else operator
