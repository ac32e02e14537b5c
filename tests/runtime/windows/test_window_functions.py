"""Functions of windows: aggregates, state, clocks, and what can be queried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.windows.windowed import RESULT, ROW, SESSIONS, TUMBLING, harness, plain

from queryable_state.streaming import (
    AggregateFunction,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    TimeWindow,
    Types,
    ValueStateDescriptor,
    WindowFunction,
)
from queryable_state.wire.errors import InvalidRequestError, JobError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Average(AggregateFunction):
    """The average of the values, by sum and number."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value.v, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Alone(WindowFunction):
    """Emits the only element with the key."""

    def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        (only,) = inputs
        return [(key, only)]


def test_an_aggregated_window_has_its_result_and_sessions_merge_accumulators() -> None:
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    for assigner in (TUMBLING, SESSIONS):
        windows = harness(
            assigner,
            lambda windowed: windowed.aggregate(
                Average(), Alone(), accumulator, "k STRING, mean DOUBLE"
            ),
        )
        windows.process([("a", 0, 1), ("a", 9, 4)])
        windows.process([("a", 5, 4), ("b", 5, 7)])
        assert plain(windows.process_watermark(100)) == [("a", 3.0), ("b", 7.0)]


def test_without_a_window_function_the_aggregate_is_emitted() -> None:
    windows = harness(TUMBLING, lambda windowed: windowed.aggregate(Average()))
    windows.process([("a", 0, 1), ("a", 9, 4)])
    assert windows.process_watermark(9) == [2.5]


def test_live_windows_are_queryable_by_key_and_window() -> None:
    windows = harness(TUMBLING, lambda windowed: windowed.max("v"))
    windows.process([("a", 1, 5), ("a", 2, 3), ("a", 11, 1)])
    live = windows.window_states("window-contents")
    assert {(key, window): row.v for (key, window), row in live.items()} == {
        ("a", TimeWindow(0, 10)): 5,
        ("a", TimeWindow(10, 20)): 1,
    }
    named = harness(
        TUMBLING,
        lambda windowed: windowed.aggregate(
            Average(), queryable_name="mean", accumulator_type="s BIGINT, n BIGINT"
        ),
    )
    named.process([("a", 1, 5), ("a", 2, 3)])
    assert named.window_states("mean") == {("a", TimeWindow(0, 10)): 4.0}


def test_the_queryable_state_of_a_windowed_stream_has_its_live_windows_or_the_newest_fired() -> (
    None
):
    def greatest(one: Any, other: Any) -> Any:
        return one if one.v >= other.v else other

    def maxima() -> ReducingStateDescriptor[Any]:
        return ReducingStateDescriptor("maxima", greatest, ROW)

    live = harness(TUMBLING, lambda windowed: windowed.as_queryable_state("live", maxima()))
    live.process([("a", 1, 5), ("a", 2, 3), ("a", 11, 1)])
    assert live.window_states("live") == {
        ("a", TimeWindow(0, 10)): ("a", 1, 5),
        ("a", TimeWindow(10, 20)): ("a", 11, 1),
    }
    assert live.process_watermark(9) == []
    assert live.window_states("live") == {("a", TimeWindow(10, 20)): ("a", 11, 1)}

    fired = harness(
        TUMBLING,
        lambda windowed: windowed.allowed_lateness(100).as_queryable_state(
            "fired", maxima(), fired=True
        ),
    )
    fired.process([("a", 1, 5), ("a", 2, 3), ("a", 11, 1)])
    assert fired.states("fired") == {}
    fired.process_watermark(9)
    assert fired.states("fired") == {"a": ("a", 1, 5)}
    fired.process_watermark(19)
    assert fired.states("fired") == {"a": ("a", 11, 1)}
    # A late element fires the window before the newest again.
    fired.process([("a", 3, 7)])
    assert fired.states("fired") == {"a": ("a", 11, 1)}


class Numbered(ProcessWindowFunction):
    """Numbers the firings of each window, and those of each key."""

    def __init__(self) -> None:
        self.of_window = ValueStateDescriptor("of_window", Types.LONG())
        self.of_key = ValueStateDescriptor("of_key", Types.LONG())

    def open(self, runtime_context: Any) -> None:
        runtime_context.get_state(self.of_key)

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        numbers = []
        for store, descriptor in (
            (context.window_state(), self.of_window),
            (context.global_state(), self.of_key),
        ):
            state = store.get_state(descriptor)
            state.update((state.value() or 0) + 1)
            numbers.append(state.value())
        yield key, context.window().start, *numbers

    def clear(self, context: Any) -> None:
        context.window_state().get_state(self.of_window).clear()


def test_a_function_has_state_of_its_window_and_of_its_key() -> None:
    windows = harness(
        TUMBLING, lambda windowed: windowed.allowed_lateness(5).process(Numbered(), RESULT)
    )
    windows.process([("a", 1, 1), ("a", 11, 1)])
    assert plain(windows.process_watermark(9)) == [("a", 0, 1, 1)]
    assert plain(windows.process([("a", 2, 1)])) == [("a", 0, 2, 2)]
    assert windows.window_states("of_window") == {("a", TimeWindow(0, 10)): 2}
    assert plain(windows.process_watermark(19)) == [("a", 10, 1, 3)]
    windows.process_watermark(100)
    assert windows.window_states("of_window") == {}
    assert windows.states("of_key") == {"a": 3}


def test_merged_windows_have_no_state_of_their_own() -> None:
    windows = harness(SESSIONS, lambda windowed: windowed.process(Numbered(), RESULT))
    windows.process([("a", 1, 1)])
    with pytest.raises(InvalidRequestError, match=r"window_state\(\).*use global_state\(\)"):
        windows.process_watermark(100)


def test_state_of_a_window_whose_descriptor_is_unknown_is_refused() -> None:
    class Late(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
            context.window_state().get_state(ValueStateDescriptor("unknown", Types.LONG()))
            return []

    windows = harness(TUMBLING, lambda windowed: windowed.process(Late(), RESULT))
    windows.process([("a", 1, 1)])
    with pytest.raises(JobError, match=r"'unknown'.*keep its descriptor in an attribute"):
        windows.process_watermark(9)


def test_the_function_sees_the_clocks_of_the_batch_that_fires() -> None:
    class Clocks(ProcessWindowFunction):
        def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
            yield key, context.current_processing_time(), context.current_watermark(), 0

    windows = harness(TUMBLING, lambda windowed: windowed.process(Clocks(), RESULT))
    windows.process([("a", 1, 1)])
    windows.timestamp_ms = 5_000
    assert plain(windows.process_watermark(33)) == [("a", 5_000, 33, 0)]


class Alerts(AggregateFunction):
    """Lists the values above 5."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        return [*accumulator, value.v] if value.v > 5 else accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [*acc_a, *acc_b]


def test_a_window_whose_aggregate_is_an_empty_list_is_emitted() -> None:
    values = Types.LIST(Types.LONG())
    for assigner in (TUMBLING, SESSIONS):
        windows = harness(
            assigner,
            lambda windowed: windowed.aggregate(
                Alerts(), accumulator_type=values, output_type=values
            ),
        )
        windows.process([("a", 1, 1), ("b", 2, 7)])
        assert sorted(windows.process_watermark(100)) == [[], [7]]
        assert windows.window_states("window-contents") == {}


def test_an_empty_accumulator_of_a_merged_session_leaves_nothing_behind() -> None:
    values = Types.LIST(Types.LONG())
    windows = harness(
        SESSIONS,
        lambda windowed: windowed.aggregate(Alerts(), accumulator_type=values, output_type=values),
    )
    windows.process([("a", 0, 7), ("a", 20, 1)])
    windows.process([("a", 10, 8)])
    assert windows.process_watermark(100) == [[7, 8]]
    assert windows.window_states("window-contents") == {}
