"""Stateful operators of a running Spark query, read from its plan.

The name of a stage's task function encodes a `QueryOperator` for each of its operators. Spark keeps
this name in the plan of every query that contains the stage. The plan does not contain operators
that a `foreachBatch` function applies; only jobs of `execute` have those, and report them
themselves.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX = "queryable_state:"
_APPLIED_BY = "MapInArrow"


@dataclass(frozen=True, kw_only=True)
class QueryOperator:
    """A stateful operator, as encoded in the plan of its query."""

    uid: str
    parallelism: int
    max_parallelism: int
    config_id: str
    """Id of the job configuration on the coordinator."""


def to_name(operators: Iterable[QueryOperator]) -> str:
    """Encodes the operators of a stage as the name of its task function."""
    return _PREFIX + json.dumps([asdict(each) for each in operators], ensure_ascii=False)


def from_name(name: str) -> list[QueryOperator]:
    """Decodes the name of a task function; an empty list if it is not a stage's."""
    if not name.startswith(_PREFIX):
        return []
    return [QueryOperator(**each) for each in json.loads(name.removeprefix(_PREFIX))]


def query_operators(execution: Any) -> dict[QueryOperator, tuple[int, ...]]:
    """The operators of a started `StreamExecution`, each with the sources it reads.

    Sources are indexes in the offsets of a batch. The result includes operators that the optimizer
    removes from a batch. An operator is listed before its upstream operators. Raises Py4JError if
    the JVM does not answer.
    """
    found: dict[QueryOperator, tuple[int, ...]] = {}
    _visit(execution.analyzedPlan(), 0, found)
    return found


def optimized_away(execution: Any) -> list[QueryOperator]:
    """The operators that no batch of a `StreamExecution` will run.

    Spark's optimizer removes them from the plan for any input. Raises Py4JError if the JVM does not
    answer.
    """
    plan = execution.analyzedPlan()
    optimized = execution.sparkSession().sessionState().optimizer().execute(plan)
    wanted: dict[QueryOperator, tuple[int, ...]] = {}
    kept: dict[QueryOperator, tuple[int, ...]] = {}
    _visit(plan, 0, wanted)
    _visit(optimized, 0, kept)
    return [operator for operator in wanted if operator not in kept]


def _visit(plan: Any, position: int, found: dict[QueryOperator, tuple[int, ...]]) -> int:
    """Adds the operators of a subplan to `found`. `position` is the index of its first source; the
    result is the index after its last source. Spark numbers sources in this order."""
    operators: list[QueryOperator] = []
    if plan.nodeName() == _APPLIED_BY:
        operators = from_name(plan.functionExpr().name())
    for operator in operators:
        # Reserve its position in the order, before its upstream operators.
        found.setdefault(operator, ())
    children = plan.children()
    count = children.size()
    end = position
    for index in range(count):
        end = _visit(children.apply(index), end, found)
    if count == 0 and plan.isStreaming():
        end += 1
    for operator in operators:
        sources = {*found[operator], *range(position, end)}
        found[operator] = tuple(sorted(sources))
    return end
