"""States that a program declares or uses in a wrong way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.errors.scripted import Scripted, scripted

from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
)
from queryable_state.streaming.runtime.operators.declared_states import declared_states
from queryable_state.streaming.runtime.operators.operators import (
    KeyedProcess,
)
from queryable_state.wire.errors import InvalidRequestError, JobError, KeyTypeError, Reason

if TYPE_CHECKING:
    from queryable_state.streaming.functions import RuntimeContext


def test_a_task_without_a_batch_id_is_refused() -> None:
    harness = scripted(lambda *_: None)
    harness.batch_id = -1
    with pytest.raises(JobError, match="gave the task no batch id") as error:
        harness.run([("a", 1.0)])
    assert error.value.reason == Reason.MISSING_BATCH_ID


def test_state_outside_process_element_is_refused() -> None:
    harness = scripted(lambda *_: None, opened=lambda self, context: self.state.update(1))
    with pytest.raises(JobError, match="without a current key"):
        harness.process([("a", 1.0)])


def test_a_state_asked_for_after_open_is_refused() -> None:
    harness = scripted(
        lambda self, value, ctx: self.context.get_state(ValueStateDescriptor("late", "int"))
    )
    with pytest.raises(JobError, match=r"state 'late' .* request every state there"):
        harness.process([("a", 1.0)])


def test_one_name_for_two_different_states_is_refused() -> None:
    def twice(other: Any) -> list[Any]:
        def opened(self: Scripted, context: Any) -> None:
            getattr(context, other[0])(other[1])

        return declared_states(KeyedProcess(Scripted(lambda *_: None, opened)))

    same = twice(("get_state", ValueStateDescriptor("state", "int")))
    assert [descriptor.name for descriptor in same] == ["state", "map"]
    with pytest.raises(JobError, match="'state' is requested with two different"):
        twice(("get_state", ValueStateDescriptor("state", "bigint")))
    with pytest.raises(JobError, match="'state' is requested with two different"):
        twice(("get_list_state", ListStateDescriptor("state", "int")))
    with pytest.raises(InvalidRequestError, match="expected a ValueStateDescriptor"):
        twice(("get_state", ListStateDescriptor("other", "int")))


def test_two_states_of_an_operator_with_one_queryable_name_are_refused() -> None:
    def opened(self: Scripted, context: RuntimeContext) -> None:
        for name in ("one", "two"):
            descriptor = ValueStateDescriptor(name, "int")
            descriptor.set_queryable("same")
            context.get_state(descriptor)

    with pytest.raises(JobError, match="'one' and 'two' are both queryable as 'same'") as error:
        declared_states(KeyedProcess(Scripted(lambda *_: None, opened)))
    assert error.value.reason == Reason.DUPLICATE_NAME


def test_a_queryable_name_is_set_once_and_not_empty() -> None:
    descriptor = ValueStateDescriptor("state", "int")
    with pytest.raises(InvalidRequestError, match="non-empty"):
        descriptor.set_queryable("")
    descriptor.set_queryable("name")
    with pytest.raises(JobError, match="queryable as 'name' already"):
        descriptor.set_queryable("name")
    with pytest.raises(InvalidRequestError, match="a state needs a name"):
        ValueStateDescriptor("", "int")


def test_descriptors_refuse_what_they_cannot_use() -> None:
    with pytest.raises(InvalidRequestError, match="reduce_function: expected a ReduceFunction"):
        ReducingStateDescriptor("r", 1, "int")  # type: ignore[call-overload]
    with pytest.raises(InvalidRequestError, match="agg_function: expected an AggregateFunction"):
        AggregatingStateDescriptor("a", max)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=r"state 'v': value_type_info: .*no type"):
        ValueStateDescriptor("v", "no type")
    with pytest.raises(InvalidRequestError, match="state 'l': elem_type_info: None is not a type"):
        ListStateDescriptor("l", None)
    with pytest.raises(InvalidRequestError, match="state 'm': value_type_info: 7 is not a type"):
        MapStateDescriptor("m", "int", 7)
    with pytest.raises(KeyTypeError, match="state 'm': key_type_info: map key"):
        MapStateDescriptor("m", "array<int>", "int")

    class Total(AggregateFunction[int, int, int]):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: int, accumulator: int) -> int:
            return value + accumulator

        def get_result(self, accumulator: int) -> int:
            return accumulator

        def merge(self, acc_a: int, acc_b: int) -> int:
            return acc_a + acc_b

    with pytest.raises(InvalidRequestError, match="pass result_type_info="):
        AggregatingStateDescriptor("a", Total()).set_queryable("totals")
