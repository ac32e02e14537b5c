"""A function that cannot be pickled is refused with its operator and attribute."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import KeyedProcessFunction
from queryable_state.streaming.functions import ReducingStateDescriptor
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import OperatorNode
from queryable_state.streaming.runtime.operators.operators import KeyedProcess, Reduce
from queryable_state.streaming.spark.picklable import check_picklable
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.operators.operators import Operator


class Holder:
    def __init__(self) -> None:
        self.lock = threading.Lock()


class Alerts(KeyedProcessFunction):
    def __init__(self, client: object) -> None:
        self.limit = 3.5
        self.client = client

    def process_element(self, value: Any, ctx: Any) -> None:
        pass


def node_of(operator: Operator) -> OperatorNode:
    return OperatorNode(
        inputs=(),
        kind="process",
        operator=operator,
        output_type=None,
        columns=Columns({}),
        given_name="alerts",
    )


def refusal(operator: Operator) -> str:
    with pytest.raises(InvalidRequestError) as refused:
        check_picklable([node_of(operator)])
    return str(refused.value)


def test_the_attribute_within_an_attribute_is_named() -> None:
    text = refusal(KeyedProcess(Alerts({"main": Holder()})))
    assert text.startswith("operator 'alerts': Alerts.client['main'].lock (a lock) cannot be")
    assert "Create it in open()" in text


def test_the_variable_of_a_function_is_named() -> None:
    lock = threading.Lock()

    def greater(a: int, b: int) -> int:
        with lock:
            return max(a, b)

    text = refusal(Reduce(ReducingStateDescriptor("highest", greater, "int")))
    assert "variable 'lock' of " in text
    assert "(a lock) cannot be pickled" in text


def test_an_object_that_refers_to_itself_ends_the_search() -> None:
    holder = Holder()
    holder.__dict__["itself"] = holder
    assert ".lock (a lock)" in refusal(KeyedProcess(Alerts(holder)))


def test_a_function_that_can_be_pickled_is_accepted() -> None:
    check_picklable([node_of(KeyedProcess(Alerts(lambda value: value)))])
