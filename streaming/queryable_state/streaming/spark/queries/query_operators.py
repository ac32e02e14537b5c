"""The stateful operators of a running Spark query, read from its plan.

The function of an operator's tasks has a name that carries its `QueryOperator`. Spark keeps the
name in the plan of every query that the operator is in, whoever starts the query, and whatever is
between operator and sink. Not in the plan: operators that a `foreachBatch` function applies, which
only a job of `execute` with several ends does; the job knows them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

_PREFIX = "queryable_state:"
_APPLIED_BY = "MapInArrow"


@dataclass(frozen=True, kw_only=True)
class QueryOperator:
    """A stateful operator as the plan of its query names it."""

    uid: str
    parallelism: int
    max_parallelism: int
    config_id: str
    """Configuration of the job; the coordinator has it by this id."""

    def to_name(self) -> str:
        """Name of the function that Spark runs for the operator's subtasks."""
        return _PREFIX + json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_name(cls, name: str) -> Self | None:
        """The operator whose function has this name; None: the function is not of an operator."""
        if not name.startswith(_PREFIX):
            return None
        return cls(**json.loads(name.removeprefix(_PREFIX)))


def query_operators(execution: Any) -> dict[QueryOperator, tuple[int, ...]]:
    """The operators of a `StreamExecution` of the JVM, as soon as the query has started.

    With each the sources it reads, as positions in the offsets of a batch. Also operators that the
    optimizer leaves out of a batch. In the order of the plan, an operator before those that it
    reads. Raises Py4JError where the JVM does not answer.
    """
    found: dict[QueryOperator, tuple[int, ...]] = {}
    _visit(execution.analyzedPlan(), 0, found)
    return found


def optimized_away(execution: Any) -> list[QueryOperator]:
    """The operators that no batch of a `StreamExecution` will run.

    Spark's optimizer takes them out of the plan of the query, whatever its sources have. Raises
    Py4JError where the JVM does not answer.
    """
    plan = execution.analyzedPlan()
    optimized = execution.sparkSession().sessionState().optimizer().execute(plan)
    wanted: dict[QueryOperator, tuple[int, ...]] = {}
    kept: dict[QueryOperator, tuple[int, ...]] = {}
    _visit(plan, 0, wanted)
    _visit(optimized, 0, kept)
    return [operator for operator in wanted if operator not in kept]


def _visit(plan: Any, position: int, found: dict[QueryOperator, tuple[int, ...]]) -> int:
    """Adds the operators of a part of a plan, whose first source has a position; returns the
    position behind its last source. Spark numbers the sources of a query in this order."""
    operator = None
    if plan.nodeName() == _APPLIED_BY:
        operator = QueryOperator.from_name(plan.functionExpr().name())
    if operator is not None:
        # Its place in the order, before the operators it reads.
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
