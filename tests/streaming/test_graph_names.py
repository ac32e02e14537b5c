"""Queryable names are unique within a job, which is told before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.graph.job_graph import JobGraph
from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode, SourceNode
from queryable_state.streaming.runtime.operators.operators import KeyedProcess, LatestValueSink
from queryable_state.wire.errors import JobError, Reason
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from queryable_state.streaming.graph.elements import Columns
    from queryable_state.streaming.graph.keys import KeySelector


def queryable(state_name: str, name: str) -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor(state_name, Types.LONG())
    descriptor.set_queryable(name)
    return descriptor


class TwoStates(KeyedProcessFunction):
    """Makes two states of one queryable name."""

    def open(self, runtime_context: Any) -> None:
        for state_name in ("first", "second"):
            runtime_context.get_state(queryable(state_name, "same"))

    def process_element(self, value: Any, ctx: Any) -> None:
        """Does nothing."""


def node(operator: Any, uid: str, name: str = "totals") -> OperatorNode:
    nothing: Any = None
    columns: Columns = nothing
    keys: KeySelector = nothing
    return OperatorNode(
        inputs=(
            OperatorInput(
                upstream=SourceNode(dataframe=nothing, columns=columns),
                keys=keys,
                value_columns=("v",),
                value_type=Types.LONG(),
            ),
        ),
        kind="process",
        operator=operator,
        output_type=None,
        columns=columns,
        given_uid=uid,
        given_name=name,
    )


def check(*nodes: OperatorNode) -> None:
    JobGraph.of_ends(nodes).check()


def test_two_operators_of_one_name_cannot_claim_one_queryable_name() -> None:
    with pytest.raises(JobError, match="'same'") as refusal:
        check(
            node(LatestValueSink(queryable("a", "same")), "one"),
            node(LatestValueSink(queryable("b", "same")), "two"),
        )
    assert refusal.value.reason == Reason.DUPLICATE_NAME


def test_an_operator_cannot_claim_a_queryable_name_twice() -> None:
    with pytest.raises(JobError, match="'same'") as refusal:
        check(node(KeyedProcess(TwoStates()), "one"))
    assert refusal.value.reason == Reason.DUPLICATE_NAME


def test_names_that_differ_are_accepted() -> None:
    check(
        node(LatestValueSink(queryable("a", "one")), "one"),
        node(LatestValueSink(queryable("a", "two")), "two"),
    )
