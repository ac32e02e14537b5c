"""State descriptors: PyFlink's arguments and getters, equality, text, default value."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReducingStateDescriptor,
    RuntimeContext,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Types


class Total(AggregateFunction[int, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return value + accumulator

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


TOTAL = Total()


def descriptors() -> list[StateDescriptor]:
    """One of each kind, by PyFlink's keywords."""
    return [
        ValueStateDescriptor(name="state", value_type_info=Types.LONG()),
        ListStateDescriptor(name="state", elem_type_info=Types.LONG()),
        MapStateDescriptor(
            name="state", key_type_info=Types.STRING(), value_type_info=Types.LONG()
        ),
        ReducingStateDescriptor(name="state", reduce_function=min, type_info=Types.LONG()),
        AggregatingStateDescriptor(
            name="state", agg_function=TOTAL, state_type_info=Types.LONG(), result_type_info="int"
        ),
    ]


def test_the_type_of_a_descriptor_is_that_of_the_whole_state() -> None:
    """As `type_info` in PyFlink."""
    value, elements, entries, reduced, total = descriptors()
    assert value.type_info == reduced.type_info == total.type_info == Types.LONG()
    assert elements.type_info == Types.LIST(Types.LONG())
    assert entries.type_info == Types.MAP(Types.STRING(), Types.LONG())
    assert [each.get_name() for each in descriptors()] == ["state"] * 5


def test_the_getters_of_each_kind() -> None:
    _, elements, entries, reduced, total = descriptors()
    assert isinstance(elements, ListStateDescriptor)
    assert elements.get_element_type_info() == Types.LONG()
    assert isinstance(entries, MapStateDescriptor)
    assert entries.get_key_type_info() == Types.STRING()
    assert entries.get_value_type_info() == Types.LONG()
    assert isinstance(reduced, ReducingStateDescriptor)
    assert reduced.get_reduce_function() is min
    assert isinstance(total, AggregatingStateDescriptor)
    assert total.get_agg_function() is TOTAL


def test_a_descriptor_tells_by_which_name_it_is_queried() -> None:
    descriptor = ValueStateDescriptor("last", "double")
    assert not descriptor.is_queryable()
    assert descriptor.get_queryable_state_name() is None
    descriptor.set_queryable("lastTemperature")
    assert descriptor.is_queryable()
    assert descriptor.get_queryable_state_name() == "lastTemperature"


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_no_path_of_a_request_can_have_is_refused(name: str) -> None:
    descriptor = ValueStateDescriptor(name, "double")
    with pytest.raises(InvalidRequestError, match="out of the path of a request; give another"):
        descriptor.set_queryable(name)
    descriptor.set_queryable(f"{name}last")


def test_descriptors_are_equal_if_all_their_properties_are() -> None:
    for kind, (one, same) in enumerate(zip(descriptors(), descriptors(), strict=True)):
        assert one == same
        assert hash(one) == hash(same)
        assert [one == other for other in descriptors()].count(True) == 1, kind
        same.set_queryable("published")
        assert one != same
    assert ValueStateDescriptor("a", "int") != ValueStateDescriptor("b", "int")
    assert ValueStateDescriptor("a", "int") != ValueStateDescriptor("a", "bigint")
    assert ValueStateDescriptor("a", "int") != "a"


def test_the_text_of_a_descriptor_names_class_state_type_and_queryable_name() -> None:
    value, elements, entries, _, total = descriptors()
    value.set_queryable("last")
    assert repr(value) == "ValueStateDescriptor('state', bigint, queryable as 'last')"
    assert repr(elements) == "ListStateDescriptor('state', array<bigint>)"
    assert repr(entries) == "MapStateDescriptor('state', map<string,bigint>)"
    assert repr(total) == "AggregatingStateDescriptor('state', bigint -> int)"


def test_a_descriptor_is_the_same_behind_a_pickle() -> None:
    value, elements, entries, reduced, _ = descriptors()
    for descriptor in (value, elements, entries, reduced):
        assert pickle.loads(pickle.dumps(descriptor)) == descriptor


class Counter(KeyedProcessFunction):
    """Counts from a default value, as programs written for Flink 1.3 do."""

    def open(self, runtime_context: RuntimeContext) -> None:
        with pytest.deprecated_call(match="state 'seen': default_value is deprecated"):
            descriptor = ValueStateDescriptor("seen", Types.LIST(Types.STRING()), ["start"])
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> list[str]:
        if value == "clear":
            self.seen.clear()
        elif value != "read":
            seen = self.seen.value()
            assert seen is not None
            seen.append(value)
            self.seen.update(seen)
        return [repr(self.seen.value())]


def test_a_default_value_reads_where_there_is_none_and_is_not_stored() -> None:
    harness = KeyedOperatorHarness(
        Counter(), "k STRING, v STRING", key_by="k", value_column="v", output_type="string"
    )
    assert harness.process([("k", "read"), ("l", "read")]) == ["['start']"] * 2
    assert harness.state("seen", "k") is None
    # Each read is a copy: what one key appends, the default of another does not have.
    assert harness.process([("k", "a"), ("k", "b")])[-1] == "['start', 'a', 'b']"
    assert harness.process([("l", "read"), ("k", "clear")]) == ["['start']"] * 2


def test_a_default_value_of_another_type_is_refused() -> None:
    with (
        pytest.deprecated_call(),
        pytest.raises(InvalidRequestError, match=r"state 'count': default_value: .*'none'"),
    ):
        ValueStateDescriptor("count", Types.LONG(), "none")
