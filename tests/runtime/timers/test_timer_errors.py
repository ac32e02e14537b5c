"""What is refused of timers, and what the errors say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.operators.declared_states import declared_states
from queryable_state.streaming.runtime.operators.operators import KeyedBatchProcess, KeyedProcess
from queryable_state.streaming.testing import ChainHarness, KeyedOperatorHarness
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason, SerializationError

if TYPE_CHECKING:
    from queryable_state.streaming import RuntimeContext
    from queryable_state.streaming.functions import Context

METHODS = [
    f"{verb}_{clock}_time_timer"
    for verb in ("register", "delete")
    for clock in ("event", "processing")
]


def harness_of(function: KeyedProcessFunction) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        function, "key STRING, at BIGINT", key_by="key", output_type="bigint", name="alarms"
    )


class Calling(KeyedProcessFunction):
    """Calls a method of the timer service with each element's time."""

    def __init__(self, method: str) -> None:
        self.method = method

    def process_element(self, value: Any, ctx: Context) -> None:
        getattr(ctx.timer_service(), self.method)(value.at)


class Firing(Calling):
    """Calls `fire` for each timer."""

    def __init__(self, fire: Any = None) -> None:
        super().__init__("register_event_time_timer")
        self.fire = fire

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        return self.fire(self)


@pytest.mark.parametrize("method", METHODS)
def test_a_timer_of_a_function_without_on_timer_is_refused(method: str) -> None:
    with pytest.raises(InvalidRequestError, match="define on_timer") as error:
        harness_of(Calling(method)).process([("a", 5)])
    assert error.value.reason == Reason.UNSUPPORTED
    assert method in str(error.value)
    assert "operator 'alarms'" in str(error.value)


@pytest.mark.parametrize("method", METHODS)
def test_a_timer_without_a_key_is_refused(method: str) -> None:
    class Unkeyed(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
            getattr(ctx.timer_service(), method)(5)

    harness = ChainHarness(lambda stream: stream.process(Unkeyed(), "int"), "int")
    with pytest.raises(InvalidRequestError, match="only supported on keyed streams") as error:
        harness.process([1])
    assert error.value.reason == Reason.UNSUPPORTED
    assert method in str(error.value)


@pytest.mark.parametrize("base", [ProcessFunction, MapFunction])
def test_on_timer_of_a_function_without_keys_is_refused(base: type) -> None:
    body = {name: lambda *_: None for name in ("on_timer", "map", "process_element")}
    function: Any = type("Unkeyed", (base,), body)()
    method = "map" if base is MapFunction else "process"
    with pytest.raises(InvalidRequestError, match=r"Unkeyed\.on_timer would never be called"):
        ChainHarness(lambda stream: getattr(stream, method)(function, "int"), "int")


def test_on_timer_of_a_batch_function_is_refused() -> None:
    body = {name: lambda *_: None for name in ("on_timer", "process_batch")}
    function: Any = type("Batches", (KeyedBatchProcessFunction,), body)()
    with pytest.raises(InvalidRequestError, match=r"Batches\.on_timer would .* has timers"):
        KeyedBatchProcess(function)


@pytest.mark.parametrize("timestamp", [1 << 63, -(1 << 63) - 1, 1.5, "5", None])
def test_a_timestamp_that_is_not_a_64_bit_number_is_refused(timestamp: Any) -> None:
    class Wrong(Firing):
        def process_element(self, value: Any, ctx: Context) -> None:
            ctx.timer_service().register_event_time_timer(timestamp)

    with pytest.raises(InvalidRequestError, match="64-bit milliseconds") as error:
        harness_of(Wrong()).process([("a", 5)])
    assert "key 'a'" in "".join(error.value.__notes__)


def test_an_error_of_on_timer_names_operator_key_and_timer() -> None:
    def fail(_: Firing) -> None:
        raise ValueError("no mail server")

    harness = harness_of(Firing(fail))
    harness.process([("a", 5)])
    with pytest.raises(UserFunctionError, match="no mail server") as error:
        harness.process_watermark(5)
    assert "operator 'alarms'" in str(error.value)
    assert "on_timer failed for key 'a', at the EVENT_TIME timer of 5 ms" in str(error.value)
    assert isinstance(error.value.__cause__, ValueError)


def test_an_error_of_a_state_in_on_timer_names_key_and_timer() -> None:
    harness = harness_of(Firing(lambda function: function.last.update("soon")))
    harness.process([("a", 5)])
    with pytest.raises(SerializationError) as error:
        harness.process_watermark(5)
    assert "key 'a', at the EVENT_TIME timer of 5 ms" in "".join(error.value.__notes__)


def test_a_single_output_that_on_timer_returns_is_refused() -> None:
    harness = harness_of(Firing(lambda _: "an output"))
    harness.process([("a", 5)])
    with pytest.raises(UserFunctionError, match="yield outputs, or return a list"):
        harness.process_watermark(5)


def test_a_timer_that_failed_fires_when_the_batch_is_repeated() -> None:
    failures = [ValueError("not yet")]

    def fail_once(_: Firing) -> list[int]:
        if failures:
            raise failures.pop()
        return [1]

    harness = harness_of(Firing(fail_once))
    harness.process([("a", 5)])
    harness.watermark_ms = 5
    with pytest.raises(UserFunctionError, match="not yet"):
        harness.run([])
    assert harness.process([]) == [1]
    assert harness.num_event_time_timers() == 0


def test_a_state_of_a_function_with_timers_cannot_be_named_timers() -> None:
    class Named(Firing):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("timers", Types.LONG()))

    with pytest.raises(JobError, match="the same name") as error:
        harness_of(Named()).process([])
    assert error.value.reason == Reason.DUPLICATE_NAME


def test_a_function_declares_timers_if_it_overrides_on_timer() -> None:
    declared = declared_states(KeyedProcess(Firing()))
    assert [(state.name, state.kind) for state in declared] == [
        ("last", StateKind.VALUE),
        ("timers", StateKind.TIMER),
    ]
    assert declared_states(KeyedProcess(Calling(METHODS[0]))) == []
