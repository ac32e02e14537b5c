"""Errors in user code name the record, and the file and line of the user's program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.errors.scripted import WHERE, scripted

from queryable_state.streaming import (
    KeyedCoProcessFunction,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.operator_state.broadcast_functions import (
    BroadcastProcessFunction,
)
from queryable_state.streaming.runtime.operators.operators import Reduce
from queryable_state.streaming.testing import (
    BroadcastOperatorHarness,
    KeyedOperatorHarness,
    TwoInputOperatorHarness,
)
from queryable_state.wire.errors import SerializationError

if TYPE_CHECKING:
    from queryable_state.streaming import RuntimeContext

HERE = r"\(.*tests/runtime/errors/test_named_records\.py:\d+ in "


def test_an_exception_names_the_record_and_the_line_of_the_program() -> None:
    def body(self: Any, value: Any, ctx: Any) -> Any:
        return [1 / value.degrees]

    text = (
        rf"{WHERE}: process_element failed for key 'b': ZeroDivisionError: .*{HERE}body\), "
        r"at the element Row\(sensor='b', degrees=0\.0\)"
    )
    with pytest.raises(UserFunctionError, match=text):
        scripted(body, "double").process([("a", 1.0), ("b", 0.0), ("c", 2.0)])


def test_a_long_record_is_shortened() -> None:
    harness = scripted(lambda self, value, ctx: [][0])
    with pytest.raises(UserFunctionError) as failure:
        harness.process([("x" * 10_000, 1.0)])
    assert len(str(failure.value)) < 1000


def test_a_refused_write_names_the_record_and_the_line_too() -> None:
    class Wrong(KeyedCoProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

        def process_element1(self, value: Any, ctx: Any) -> None:
            pass

        def process_element2(self, value: Any, ctx: Any) -> None:
            self.last.update(value.text)

    harness = TwoInputOperatorHarness(
        Wrong(), "k STRING", "k STRING, text STRING", key_by=("k", "k")
    )
    with pytest.raises(SerializationError) as failure:
        harness.process([("a",)], [("b", "no number")])
    notes = "\n".join(failure.value.__notes__)
    assert "key 'b', at the element Row(k='b', text='no number')" in notes
    assert "test_named_records.py" in notes


def test_a_reduce_function_and_an_open_hook_name_the_line() -> None:
    reduce = ReducingStateDescriptor("best", lambda a, b: {}[a], "int")
    harness = KeyedOperatorHarness(Reduce(reduce), "int", key_by="value", output_type="int")
    with pytest.raises(UserFunctionError, match=rf"KeyError: 7 {HERE}<lambda>\).*element 7$"):
        harness.process([7, 7])

    def fail(*_: Any) -> None:
        raise OSError("no database")

    with pytest.raises(UserFunctionError, match=rf"open failed in Scripted: .*{HERE}fail\)"):
        scripted(lambda *_: None, opened=fail).process([("a", 1.0)])


def test_an_element_without_a_key_is_named() -> None:
    class Failing(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            raise ValueError("bad reading")

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            pass

    descriptor = MapStateDescriptor("limits", Types.STRING(), Types.DOUBLE())
    harness = BroadcastOperatorHarness(Failing(), [descriptor], "degrees DOUBLE", "limit DOUBLE")
    with pytest.raises(
        UserFunctionError, match=rf"failed for Row\(degrees=3\.5\): .*bad reading {HERE}"
    ):
        harness.process([(3.5,)])
