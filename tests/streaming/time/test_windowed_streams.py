"""Windowed streams of a program, without Spark: what they accept, and the nodes that they add."""

from __future__ import annotations

from collections.abc import Iterable  # noqa: TC003 - read from annotations
from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.stateless.chains import stream

from queryable_state.streaming import (
    AggregateFunction,
    AllWindowFunction,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    OutputTag,
    ProcessWindowFunction,
    PurgingTrigger,
    Time,
    TimeCharacteristic,
    Trigger,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    WindowAssigner,
    WindowFunction,
)
from queryable_state.streaming.graph.job_graph import JobGraph, name_claims, needs_clock
from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming import DataStream

ROW = "at timestamp, k string, n int"
MINUTE = Time.minutes(1)
TUMBLING = TumblingEventTimeWindows.of(MINUTE)


def source(event_time: str | None = "at") -> DataStream:
    return stream(ROW, event_time)


class Listed(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[int]:
        return []


class Applied(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[str]:
        return []


class OfAll(AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[str]:
        return []


class Length(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def operator_of(made: Any) -> WindowOperator:
    operator = made._node.operator
    assert isinstance(operator, WindowOperator)
    return operator


def test_the_output_type_is_declared_or_that_of_the_annotation() -> None:
    windowed = source().key_by("k").window(TUMBLING)
    assert windowed.reduce(max)._node.output_type == windowed.get_input_type()
    assert windowed.process(Listed())._node.output_type == Types.LONG()
    assert windowed.apply(Applied())._node.output_type == Types.STRING()
    assert windowed.aggregate(Length())._node.output_type == Types.LONG()
    assert windowed.aggregate(Length(), Applied())._node.output_type == Types.STRING()
    assert windowed.process(Listed(), "n int")._node.columns.names == ("n",)


def test_results_of_windows_have_event_time_also_of_processing_time() -> None:
    windowed = source(None).key_by("k").window(TumblingProcessingTimeWindows.of(MINUTE))
    result = windowed.process(Listed())
    assert result._node.columns.has_internal_time
    assert result.get_side_output(OutputTag("side", Types.INT()))._node.columns.has_internal_time
    again = result.key_by("value").window(TUMBLING).max()
    assert operator_of(again).assigner is TUMBLING


def test_event_time_windows_of_a_stream_without_event_time_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="assign_timestamps_and_watermarks on the stream"):
        source(None).key_by("k").window(TUMBLING)
    with pytest.raises(InvalidRequestError, match="event time"):
        source(None).window_all(TUMBLING)


def test_the_shortcuts_make_windows_of_the_characteristic_of_the_environment() -> None:
    made = source()
    environment: Any = made._environment
    environment.get_stream_time_characteristic = lambda: TimeCharacteristic.EventTime
    keyed = made.key_by("k")
    assert repr(keyed.time_window(MINUTE)._assigner) == "TumblingEventTimeWindows(60000, 0)"
    sliding = keyed.time_window(MINUTE, Time.seconds(5))
    assert repr(sliding._assigner) == "SlidingEventTimeWindows(60000, 5000, 0)"
    environment.get_stream_time_characteristic = lambda: TimeCharacteristic.ProcessingTime
    all_windows = made.time_window_all(MINUTE)
    assert repr(all_windows._assigner) == "TumblingProcessingTimeWindows(60000, 0)"
    assert repr(keyed.count_window(5)._assigner) == "CountTumblingWindowAssigner(5)"
    assert repr(made.count_window_all(5, 2)._assigner) == "CountSlidingWindowAssigner(5, 2)"


def test_windows_of_all_elements_have_one_subtask() -> None:
    made = source().window_all(TUMBLING).apply(OfAll())
    assert made._node.parallelism == 1
    assert made._node.key_type == Types.INT()


def test_only_functions_of_the_right_class_are_taken() -> None:
    keyed, every = source().key_by("k").window(TUMBLING), source().window_all(TUMBLING)
    wrong: list[Any] = [
        lambda: keyed.apply(Listed()),  # type: ignore[arg-type]
        lambda: keyed.process(Applied()),  # type: ignore[arg-type]
        lambda: keyed.reduce(max, OfAll()),  # type: ignore[arg-type]
        lambda: every.apply(Applied()),  # type: ignore[arg-type]
        lambda: every.aggregate(Length(), Listed()),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(TypeError, match=r"the window function of .* is a"):
            call()


@pytest.mark.parametrize("lateness", [-1, 1.5, True, None])
def test_a_lateness_is_a_number_of_milliseconds(lateness: Any) -> None:
    with pytest.raises(InvalidRequestError, match="number of milliseconds"):
        source().key_by("k").window(TUMBLING).allowed_lateness(lateness)


def test_what_is_no_assigner_trigger_or_tag_is_refused() -> None:
    keyed: Any = source().key_by("k")
    with pytest.raises(InvalidRequestError, match="window takes a WindowAssigner"):
        keyed.window(MINUTE)
    with pytest.raises(InvalidRequestError, match="trigger takes a Trigger"):
        keyed.window(TUMBLING).trigger(5)
    with pytest.raises(InvalidRequestError, match="takes an OutputTag"):
        keyed.window(TUMBLING).side_output_late_data("late")
    with pytest.raises(InvalidRequestError, match="aggregate takes an AggregateFunction"):
        keyed.window(TUMBLING).aggregate(max)
    with pytest.raises(InvalidRequestError, match="takes a ReducingStateDescriptor"):
        keyed.window(TUMBLING).as_queryable_state("name", None)


class Own(WindowAssigner[Any, Any]):
    """Windows that state cannot be kept by."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Any]:
        return []

    def get_default_trigger(self, env: object) -> Trigger[Any, Any]:
        return CountTrigger.of(1)

    def get_window_serializer(self) -> Any:
        return None

    def is_event_time(self) -> bool:
        return False


def test_an_assigner_has_windows_of_a_known_class() -> None:
    with pytest.raises(InvalidRequestError, match="return a TimeWindowSerializer"):
        source().key_by("k").window(Own())


def test_a_job_with_windows_has_batches_without_input() -> None:
    made = source().key_by("k").window(TUMBLING).reduce(max)
    assert needs_clock(made._node.operator)
    assert JobGraph.of_ends([made._node]).needs_clock


def test_the_plan_describes_the_windows() -> None:
    windowed = source().key_by("k").window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    assert windowed.process(Listed())._node.description == (
        "Window(EventTimeSessionWindows(1000), EventTimeTrigger, Listed)"
    )
    counted = source().key_by("k").window(GlobalWindows.create())
    counted.trigger(PurgingTrigger.of(CountTrigger.of(3)))
    assert counted.reduce(max)._node.description == "Window(GlobalWindows(), PurgingTrigger, max)"


def test_queryable_windows_claim_their_name() -> None:
    made = source().key_by("k").window(TUMBLING).reduce(max, queryable_name="maxima")
    (claim,) = name_claims(made._node)
    assert (claim.queryable_name, claim.state_name) == ("maxima", "window-contents")
