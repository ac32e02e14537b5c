"""What a user can do wrong, and what each mistake is told."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import runtime
from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReducingStateDescriptor,
    UserFunctionError,
)
from queryable_state.streaming.runtime.operators.operators import (
    KeyedProcess,
    Reduce,
    declared_states,
)
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.errors import (
    InvalidRequestError,
    JobError,
    KeyTypeError,
    LimitExceededError,
    Reason,
    SerializationError,
)
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import Context, RuntimeContext

WHERE = r"operator 'alerts' \(uid operator\), subtask \d of 2, batch 0"


class Scripted(KeyedProcessFunction):
    """Runs one given callable on each element."""

    def __init__(
        self,
        body: Callable[[Scripted, Any, Context], Any],
        opened: Callable[[Scripted, RuntimeContext], Any] | None = None,
    ) -> None:
        self.body = body
        self.opened = opened

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        self.state = runtime_context.get_state(ValueStateDescriptor("state", "int"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", "string", "int"))
        if self.opened is not None:
            self.opened(self, runtime_context)

    def process_element(self, value: Any, ctx: Context) -> Any:
        return self.body(self, value, ctx)


def scripted(
    body: Callable[..., Any], output_type: object = None, **kw: Any
) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        Scripted(body, kw.pop("opened", None)),
        "sensor STRING, degrees DOUBLE",
        key_by="sensor",
        output_type=output_type,
        name="alerts",
        **kw,
    )


ROWS = [("a", 1.0), ("b", 0.0)]


def test_what_a_function_raises_comes_with_operator_batch_and_key() -> None:
    harness = scripted(lambda self, value, ctx: [1 / value.degrees], "double")
    with pytest.raises(
        UserFunctionError, match=rf"{WHERE}: process_element.*'b': ZeroDiv"
    ) as error:
        harness.process(ROWS)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_what_a_generator_raises_after_an_output_comes_with_its_key() -> None:
    def body(self: Scripted, value: Any, ctx: Context) -> Any:
        yield 1.0
        raise StopAsyncIteration("odd")

    with pytest.raises(UserFunctionError, match=r"for key '[ab]': StopAsyncIteration: odd"):
        scripted(body, "double").process(ROWS)


def test_a_failed_attempt_stages_nothing() -> None:
    harness = scripted(lambda self, value, ctx: self.state.update(int(1 / value.degrees)))
    with pytest.raises(UserFunctionError):
        harness.run([("a", 1.0), ("a", 0.0)])
    harness.process([("a", 0.25)])
    assert harness.state("state", "a") == 4


def test_open_and_close_failures_name_the_operator() -> None:
    def fail(*_: Any) -> None:
        raise OSError("no database")

    with pytest.raises(UserFunctionError, match=f"{WHERE}: open failed in Scripted: OSError"):
        scripted(lambda *_: None, opened=fail).process(ROWS)

    class Closing(Scripted):
        def close(self) -> None:
            fail()

    harness = KeyedOperatorHarness(
        Closing(lambda *_: None), "sensor STRING", key_by="sensor", name="alerts"
    )
    with pytest.raises(UserFunctionError, match="close failed in Closing: OSError: no database"):
        harness.process([("a",)])


def test_a_function_is_closed_when_it_fails_and_when_nobody_reads_on() -> None:
    closed: list[str] = []

    class Closing(Scripted):
        def close(self) -> None:
            closed.append("closed")

        def __deepcopy__(self, memo: Any) -> Closing:
            return self

    def harness_of(body: Callable[..., Any]) -> KeyedOperatorHarness:
        return KeyedOperatorHarness(
            Closing(body), "sensor STRING", key_by="sensor", output_type="int", parallelism=1
        )

    with pytest.raises(UserFunctionError):
        harness_of(lambda *_: [][0]).process([("a",)])
    harness = harness_of(lambda *_: [1])
    attempt = harness.attempt(0, harness.partitions([("a",)])[0])
    next(attempt)
    attempt.close()
    assert closed == ["closed", "closed"]


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
            self.state.update(lambda: None)

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


def test_a_reduce_function_that_raises_or_returns_none_is_named() -> None:
    def harness_of(function: Callable[[Any, Any], Any]) -> KeyedOperatorHarness:
        descriptor = ReducingStateDescriptor("best", function, "int")
        return KeyedOperatorHarness(
            Reduce(descriptor), "int", key_by="value", output_type="int", name="alerts"
        )

    with pytest.raises(UserFunctionError, match="the reduce function failed for key 7: KeyError"):
        harness_of(lambda a, b: {}[a]).process([7, 7])
    with pytest.raises(
        UserFunctionError, match="state 'best', key 7: the reduce function returned None"
    ):
        harness_of(lambda a, b: None).process([7, 7])


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
    with pytest.raises(InvalidRequestError, match="a reduce function is"):
        ReducingStateDescriptor("r", 1, "int")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="takes an AggregateFunction"):
        AggregatingStateDescriptor("a", max)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError):
        ValueStateDescriptor("v", "no type")
    with pytest.raises(KeyTypeError, match="map key"):
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

    with pytest.raises(InvalidRequestError, match="pass result_type="):
        AggregatingStateDescriptor("a", Total()).set_queryable("totals")


def test_grpc_is_imported_only_where_a_task_runs() -> None:
    """Spark forks its workers; gRPC must not be there before."""
    importers = {"backend_client", "channels"}
    for path in Path(runtime.__file__).parent.glob("*.py"):
        if path.stem in importers:
            continue
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in getattr(node, "names", ())]
            names.append(getattr(node, "module", None) or "")
            used = {part for name in names for part in name.split(".")}
            assert not used & ({"grpc"} | importers), f"{path.name}:{node.lineno}"
