"""Keys, rows, values and outputs that the runtime refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.errors.scripted import WHERE, Scripted, scripted

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction, UserFunctionError
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.errors import (
    JobError,
    KeyTypeError,
    LimitExceededError,
    Reason,
    SerializationError,
)
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from queryable_state.streaming.functions import Context, RuntimeContext


def test_a_null_key_is_refused_with_its_column() -> None:
    harness = scripted(lambda *_: None, parallelism=1)
    with pytest.raises(
        KeyTypeError, match="batch 0: the key column 'sensor' is null in 2 of 3 rows"
    ):
        harness.process([(None, 1.0), ("a", 1.0), (None, 2.0)])


def test_a_null_in_a_composite_key_is_refused_with_its_column() -> None:
    harness = KeyedOperatorHarness(
        Scripted(lambda *_: None), "a STRING, b INT", key_by=["a", "b"], name="alerts"
    )
    with pytest.raises(KeyTypeError, match="key column 'b' is null in 1 of 1 rows"):
        harness.process([("x", None)])


def test_a_null_inside_a_struct_key_is_refused() -> None:
    harness = KeyedOperatorHarness(
        Scripted(lambda *_: None),
        Types.ROW_NAMED(["k"], ["struct<a:int,b:string>"]),
        key_by="k",
        name="alerts",
    )
    batch = harness.partitions([({"a": 1, "b": "x"},)])
    subtask = next(i for i, part in enumerate(batch) if part)
    (chunk,) = batch[subtask]
    import pyarrow as pa

    nulled = chunk.set_column(
        0, chunk.schema.field(0), pa.array([{"a": 1, "b": None}], chunk.schema.field(0).type)
    )
    with pytest.raises(KeyTypeError, match=r"key\.b"):
        list(harness.attempt(subtask, [nulled]))


def test_a_key_over_the_limit_is_refused() -> None:
    harness = scripted(lambda *_: None, settings=RuntimeSettings(key_bytes=50))
    with pytest.raises(
        LimitExceededError, match=r"has 64 bytes, but spark\.queryable_state\.key_bytes is 50"
    ):
        harness.process([("x" * 60, 1.0)])


def test_rows_of_another_subtask_are_refused_before_the_function_sees_one() -> None:
    """As in a stage whose partitions a plan behind the operator has renumbered."""
    seen: list[Any] = []
    harness = scripted(lambda self, value, ctx: seen.append(value))
    parts = harness.partitions([("a", 1.0)])
    wrong, batches = next((1 - i, part) for i, part in enumerate(parts) if part)
    with pytest.raises(JobError, match=r"key groups .*coalesce.*repartition") as caught:
        list(harness.attempt(wrong, batches))
    assert caught.value.reason == Reason.SUBTASK_MISMATCH
    assert seen == []


def test_a_partition_beyond_the_parallelism_is_refused() -> None:
    """As behind a union, which counts the partitions of its other side first."""
    harness = scripted(lambda *_: None)
    with pytest.raises(JobError, match=r"subtasks 0 to 1, .* as partition 3") as caught:
        list(harness.attempt(3, []))
    assert caught.value.reason == Reason.SUBTASK_MISMATCH


def test_a_value_that_is_not_of_its_type_names_state_key_and_type() -> None:
    harness = scripted(lambda self, value, ctx: self.state.update("much"))
    with pytest.raises(
        SerializationError, match=rf"{WHERE}: state 'state', key 'a': .* as int: .*'?much'?"
    ):
        harness.process([("a", 1.0)])


def test_an_unpicklable_value_names_its_state() -> None:
    class Unpicklable(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_state(
                ValueStateDescriptor("model", Types.PICKLED_BYTE_ARRAY())
            )

        def process_element(self, value: Any, ctx: Context) -> None:
            self.state.update(number for number in range(3))

    harness = KeyedOperatorHarness(Unpicklable(), "int", key_by="value")
    with pytest.raises(SerializationError, match=r"state 'model', key 1: .*cannot be pickled"):
        harness.process([1])


def test_a_wrong_map_key_and_a_wrong_map_value_are_refused_where_they_are_put() -> None:
    harness = scripted(lambda self, value, ctx: self.map.put(1, 1))
    with pytest.raises(
        KeyTypeError, match="state 'map', key 'a': the map key 1 is not of type string"
    ):
        harness.process([("a", 1.0)])
    harness = scripted(lambda self, value, ctx: self.map.put("x", "y"))
    with pytest.raises(SerializationError, match="state 'map', key 'a'"):
        harness.process([("a", 1.0)])


@pytest.mark.parametrize(
    ("output_type", "output", "text"),
    [
        ("int", "1", "the output column 'value' is int"),
        ("int", 1.5, "a float is not an integer"),
        ("a INT, b INT", (1,), "emitted a value that is not a row of its output type"),
        ("a INT, b INT", 1, "emitted a value that is not a row of its output type"),
        ("a INT, b INT", {"c": 1}, "has no field 'c'"),
        ("a STRING", (b"\xff",), "the output column 'a' is string"),
    ],
)
def test_an_output_that_is_not_of_the_output_type_is_refused(
    output_type: str, output: Any, text: str
) -> None:
    harness = scripted(lambda *_: [output], output_type)
    with pytest.raises(UserFunctionError, match=text) as error:
        harness.process([("a", 1.0)])
    assert "operator 'alerts'" in str(error.value)


def test_outputs_may_be_tuples_rows_lists_and_dictionaries() -> None:
    from queryable_state.wire.rows import make_row

    rows = [(1, "x"), [2, "y"], {"b": "z", "a": 3}, make_row(["b", "a"], ["w", 4])]
    harness = scripted(lambda *_: rows, "a INT, b STRING")
    assert harness.process([("a", 1.0)]) == [(1, "x"), (2, "y"), (3, "z"), (4, "w")]
