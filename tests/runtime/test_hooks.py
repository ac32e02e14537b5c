"""Every hook of a function is called, or refused before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    UserFunctionError,
)
from queryable_state.streaming.runtime.operators.declared_states import declared_states
from queryable_state.streaming.runtime.operators.operators import (
    KeyedProcess,
    Reduce,
    ReducingSink,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason

if TYPE_CHECKING:
    from queryable_state.streaming.functions import Context, RuntimeContext

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def calls() -> list[str]:
    CALLS.clear()
    return CALLS


class Told:
    """Tells when it is opened and closed, and fails where it is told to."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def tell(self, what: str) -> None:
        CALLS.append(f"{type(self).__name__}.{what}")
        if what == self.fails:
            raise OSError(f"no {what}")

    def open(self, runtime_context: RuntimeContext) -> None:
        self.tell(f"open{runtime_context.get_index_of_this_subtask()}")

    def close(self) -> None:
        self.tell("close")


class Least(Told, ReduceFunction[Any]):
    def reduce(self, value1: Any, value2: Any) -> Any:
        self.tell("reduce")
        return min(value1, value2)


class Count(Told, AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        self.tell("get_result")
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Process(Told, KeyedProcessFunction):
    def __init__(self, fails: str = "", of_states: str = "") -> None:
        super().__init__(fails)
        self.of_states = of_states

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        least, count = Least(self.of_states), Count(self.of_states)
        self.least = runtime_context.get_reducing_state(
            ReducingStateDescriptor("least", least, "bigint")
        )
        counts = AggregatingStateDescriptor("count", count, "bigint", "bigint")
        counts.set_queryable("counts")
        self.count = runtime_context.get_aggregating_state(counts)

    def process_element(self, value: Any, ctx: Context) -> None:
        self.tell("process_element")
        self.least.add(value)
        self.count.add(value)


def harness_of(operator: Any, output_type: object = None) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        operator, "bigint", key_by="value", output_type=output_type, parallelism=1
    )


def test_the_functions_of_states_are_opened_after_the_process_function_and_closed_before_it() -> (
    None
):
    harness_of(Process()).process([7, 7])
    assert CALLS == [
        "Process.open0",
        "Least.open0",
        "Count.open0",
        "Process.process_element",
        "Process.process_element",
        "Least.reduce",
        "Count.get_result",
        "Count.close",
        "Least.close",
        "Process.close",
    ]


@pytest.mark.parametrize("emit", [True, False])
def test_a_reduce_function_is_opened_and_closed_by_reduce_and_by_a_sink(emit: bool) -> None:
    descriptor = ReducingStateDescriptor("least", Least(), "bigint")
    operator = Reduce(descriptor) if emit else ReducingSink(descriptor)
    harness_of(operator, "bigint" if emit else None).process([7, 7])
    assert CALLS == ["Least.open0", "Least.reduce", "Least.close"]


@pytest.mark.parametrize(
    ("function", "last"),
    [
        (Process("open0"), ["Process.open0", "Process.close"]),
        (Process("process_element"), ["Count.close", "Least.close", "Process.close"]),
        (Process(of_states="open0"), ["Least.open0", "Least.close", "Process.close"]),
        (Process(of_states="reduce"), ["Count.close", "Least.close", "Process.close"]),
        (Process(of_states="close"), ["Count.close", "Least.close", "Process.close"]),
    ],
)
def test_everything_opened_is_closed_when_a_task_fails(function: Process, last: list[str]) -> None:
    harness = harness_of(function)
    with pytest.raises(UserFunctionError, match=r"no (open0|process_element|reduce|close)"):
        harness.process([7, 7])
    assert CALLS[-len(last) :] == last
    assert harness.backend.seals == {}  # type: ignore[attr-defined]


def test_reduce_is_closed_when_it_fails() -> None:
    operator = Reduce(ReducingStateDescriptor("least", Least("reduce"), "bigint"))
    with pytest.raises(UserFunctionError):
        harness_of(operator, "bigint").process([7, 7])
    assert CALLS[-1] == "Least.close"


HOOKS = [
    "initialize_state",
    "snapshot_state",
    "notify_checkpoint_complete",
    "notify_checkpoint_aborted",
]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_nothing_calls_is_refused_where_the_function_is_given(hook: str) -> None:
    def with_hook(base: type) -> Any:
        return type(f"My{base.__name__}", (base,), {hook: lambda self, *_: None})()

    for make in (
        lambda: KeyedProcess(with_hook(Process)),
        lambda: ReducingStateDescriptor("least", with_hook(Least), "bigint"),
        lambda: AggregatingStateDescriptor("count", with_hook(Count)),
    ):
        with pytest.raises(InvalidRequestError, match=rf"My\w+\.{hook} would never be") as error:
            make()
        assert error.value.reason == Reason.UNSUPPORTED


def test_a_method_of_another_name_is_the_users_own() -> None:
    own = type("Own", (Process,), {"on_alarm": lambda self: None, "snapshot": 1, "on_timer": None})
    assert [state.name for state in declared_states(KeyedProcess(own()))] == ["least", "count"]
    assert CALLS == ["Own.open0", "Own.close"]


class Asking(ReduceFunction[Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_reducing_state(ReducingStateDescriptor("late", min, "bigint"))

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


def test_only_a_process_function_may_ask_for_states() -> None:
    operator = Reduce(ReducingStateDescriptor("least", Asking(), "bigint"))
    with pytest.raises(JobError, match="'late' is requested outside open"):
        harness_of(operator, "bigint").process([7])


class Twice(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        for function in (min, max):
            runtime_context.get_reducing_state(ReducingStateDescriptor("s", function, "bigint"))

    def process_element(self, value: Any, ctx: Context) -> None: ...


def test_one_state_with_two_functions_is_refused() -> None:
    with pytest.raises(JobError, match="'s' is requested with two different"):
        declared_states(KeyedProcess(Twice()))
