"""Stateful operators of a running Spark query, read from its plan.

The name of an operator's task function encodes its `QueryOperator`. Spark keeps this name in the
plan of every query that contains the operator. The plan does not contain operators that a
`foreachBatch` function applies; only jobs of `execute` with several ends have those, and report
them themselves.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

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

    def to_name(self) -> str:
        """Encodes the operator as the name of its task function."""
        return _PREFIX + json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_name(cls, name: str) -> Self | None:
        """Decodes the name of a task function; None if it is not an operator's."""
        if not name.startswith(_PREFIX):
            return None
        return cls(**json.loads(name.removeprefix(_PREFIX)))


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
    operator = None
    if plan.nodeName() == _APPLIED_BY:
        operator = QueryOperator.from_name(plan.functionExpr().name())
    if operator is not None:
        # Reserve its position in the order, before its upstream operators.
        found.setdefault(operator, ())
    children = plan.children()
    count = children.size()
    end = position
    for index in range(count):
        end = _visit(children.apply(index), end, found)
    if count == 0 and plan.isStreaming():
        end += 1
    if operator is not None:
        sources = {*found[operator], *range(position, end)}
        found[operator] = tuple(sorted(sources))
    return end
