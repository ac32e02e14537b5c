"""Declarations of a job's operators, known to the driver before a task runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.registrations import operator_label
from queryable_state.streaming.runtime.operators.declared_states import driver_declared_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.streaming.graph.nodes import OperatorNode
    from queryable_state.streaming.spark.plan.compiler import Compiler
    from queryable_state.v1.registration_pb2 import StateRegistration

_log = logging.getLogger("queryable_state.streaming")


@dataclass(frozen=True, kw_only=True)
class OperatorDeclaration:
    """An operator of a job, and its states if the driver can determine them."""

    uid: str
    name: str
    max_parallelism: int
    states: Sequence[StateRegistration] | None
    """None: only tasks can open the operator's function, so the first batch checks its states."""

    @property
    def label(self) -> str:
        """The operator for logs and errors."""
        return operator_label(self.uid, self.name)


def declarations(
    nodes: Iterable[OperatorNode], compiler: Compiler, job_name: str
) -> list[OperatorDeclaration]:
    """The declarations of a job's operators."""
    return [
        OperatorDeclaration(
            uid=node.uid,
            name=node.name,
            max_parallelism=compiler.max_parallelism(node),
            states=_states(node, compiler.max_parallelism(node), job_name),
        )
        for node in nodes
    ]


def _states(
    node: OperatorNode, max_parallelism: int, job_name: str
) -> list[StateRegistration] | None:
    """The states an operator will register; None if only a task can open its function."""
    descriptors = driver_declared_states(node.operator, node.name)
    if descriptors is None:
        return None
    return [
        descriptor.to_registration(
            job_id=b"",
            job_name=job_name,
            operator_uid=node.uid,
            operator_name=node.name,
            operator_depth=node.depth,
            key_type=node.key_type,
            max_parallelism=max_parallelism,
        )
        for descriptor in descriptors
    ]
