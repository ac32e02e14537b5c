"""The stateful operators of a running Spark query, read from its plan.

The function of an operator's tasks has a name that carries its `QueryOperator`. Spark keeps the
name in the plan of every query that the operator is in, whoever starts the query, and whatever is
between operator and sink. Not in the plan: operators that a `foreachBatch` function applies, which
only a job of `execute` with several ends does; the job knows them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def query_operators(execution: Any) -> tuple[QueryOperator, ...]:
    """The operators of a `StreamExecution` of the JVM, as soon as the query has started.

    Also those that the optimizer leaves out of a batch. In the order of the plan, an operator
    before those that it reads; one that several parts of the query read is there once. Raises
    Py4JError where the JVM does not answer.
    """
    return tuple(dict.fromkeys(_operators(execution.analyzedPlan())))


def _operators(root: Any) -> Iterator[QueryOperator]:
    waiting = [root]
    while waiting:
        plan = waiting.pop()
        if plan.nodeName() == _APPLIED_BY:
            found = QueryOperator.from_name(plan.functionExpr().name())
            if found is not None:
                yield found
        children = plan.children()
        waiting += [children.apply(index) for index in reversed(range(children.size()))]
