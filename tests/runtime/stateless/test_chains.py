"""Functions without state, run as one chain."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.stateless.chains import run, stream

from queryable_state.streaming import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import DataStream

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
PAIRS = [("ab", 1), ("bdc", 2), ("cfgs", 3), ("deeefg", 4)]
ODD = OutputTag("odd", Types.INT())
calls: list[str] = []


class AddOne(MapFunction):
    def map(self, value: Any) -> Any:
        return value[0], value[1] + 1


class EvenOnly(FlatMapFunction):
    def flat_map(self, value: Any) -> Iterator[Any]:
        if value[1] % 2 == 0:
            yield value


class Large(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value[1] > 2)


class Hooked(MapFunction):
    """Appends to `calls` when it is opened and closed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        calls.append(f"open {self.name} {runtime_context.get_task_name()}")

    def close(self) -> None:
        calls.append(f"close {self.name}")

    def map(self, value: int) -> int:
        if value < 0:
            raise ValueError("negative")
        return value


def test_function_classes_run_one_after_another() -> None:
    made = stream(PAIR).flat_map(EvenOnly(), PAIR).filter(Large()).map(AddOne(), PAIR)
    assert run(made, PAIRS) == [("deeefg", 5)]


def test_callables_run_one_after_another() -> None:
    made = (
        stream(PAIR)
        .map(lambda pair: (pair[0], len(pair[0]), pair[1]))
        .flat_map(lambda triple: [triple, triple] if triple[2] % 2 == 0 else [])
        .filter(lambda triple: triple[1] > 3)
    )
    assert run(made, PAIRS) == [("deeefg", 6, 4), ("deeefg", 6, 4)]


@given(st.lists(st.integers(-1000, 1000)), st.integers(1, 5))
def test_outputs_do_not_depend_on_the_arrow_batches(numbers: list[int], cut: int) -> None:
    made = stream(Types.LONG()).map(lambda n: n * 2, Types.LONG()).filter(lambda n: n % 3 == 0)
    assert run(made, numbers, cut=cut) == [n * 2 for n in numbers if n * 2 % 3 == 0]


def test_elements_between_functions_are_rows_of_the_declared_type() -> None:
    row = Types.ROW_NAMED(["name", "size"], [Types.STRING(), Types.INT()])
    made = stream(PAIR).map(lambda pair: pair, row).map(lambda r: r.name * r.size, Types.STRING())
    assert run(made, [("ab", 2)]) == ["abab"]


def test_types_come_from_annotations() -> None:
    def sizes(value: tuple[str, int]) -> list[int]:
        return [value[1]] * 2

    made = stream(PAIR).flat_map(sizes)
    assert made.get_type() == Types.LONG()
    assert run(made, [("a", 7)]) == [7, 7]


def test_an_output_without_a_type_is_pickled_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        made = stream(PAIR).map(lambda pair: {pair})
    assert made.get_type() == Types.PICKLED_BYTE_ARRAY()
    assert "its result is pickled" in caplog.text
    assert run(made, [("a", 1)]) == [{("a", 1)}]


def test_functions_are_opened_in_order_and_closed_in_reverse() -> None:
    calls.clear()
    made = stream(Types.INT()).map(Hooked("one"), Types.INT()).name("first")
    made = made.map(Hooked("two"), Types.INT()).name("second")
    run(made, [1, 2])
    assert calls == ["open one first", "open two second", "close two", "close one"]


def test_functions_are_closed_after_a_failure() -> None:
    calls.clear()
    with pytest.raises(UserFunctionError):
        run(stream(Types.INT()).map(Hooked("one"), Types.INT()), [1, -1])
    assert calls[-1] == "close one"


def test_an_error_names_operator_record_and_place_in_the_program() -> None:
    made = stream(Types.INT()).map(Hooked("x"), Types.INT()).name("doubling")
    with pytest.raises(UserFunctionError) as caught:
        run(made, [3, -7])
    text = str(caught.value)
    assert "operator 'doubling': Hooked.map failed for element -7" in text
    assert "ValueError: negative" in text
    assert f"{__file__}:" in text
    assert " in map)" in text


def test_an_error_of_a_later_function_names_that_function() -> None:
    made = (
        stream(Types.INT())
        .flat_map(lambda n: (each for each in range(n)), Types.INT())
        .map(lambda n: 1 // n, Types.INT())
        .name("dividing")
    )
    with pytest.raises(UserFunctionError, match=r"operator .dividing.* element 0"):
        run(made, [1])


@pytest.mark.parametrize("result", ["text", b"bytes", {"a": 1}])
def test_a_single_output_is_not_taken_for_many(result: Any) -> None:
    with pytest.raises(UserFunctionError, match="yield outputs, or return a list"):
        run(stream(Types.INT()).flat_map(lambda n: result, Types.STRING()), [1])


def test_an_output_that_does_not_fit_its_type_is_refused() -> None:
    with pytest.raises(UserFunctionError, match=r"operator 'map'.* is int"):
        run(stream(Types.INT()).map(lambda n: "x", Types.INT()), [1])


class WithTime(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> list[Any]:
        return [ctx.timestamp()]


def test_the_timestamp_is_the_event_time_of_the_element() -> None:
    made = (
        stream("at timestamp, n int", "at").filter(lambda r: r.n).process(WithTime(), Types.LONG())
    )
    at = datetime(2026, 1, 1, 0, 0, 0, 5000, tzinfo=UTC)
    assert run(made, [(at, 1), (None, 2), (at, 0)]) == [1767225600005, None]


def test_an_element_without_event_time_has_no_timestamp() -> None:
    assert run(stream(Types.INT()).process(WithTime(), Types.LONG()), [1]) == [None]


def test_a_state_without_keys_is_refused() -> None:
    class Stateful(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

        def map(self, value: int) -> int:
            return value

    with pytest.raises(InvalidRequestError, match="has no keys"):
        run(stream(Types.INT()).map(Stateful(), Types.INT()), [1])


def test_timers_are_refused() -> None:
    class Timed(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> None:
            ctx.timer_service().register_event_time_timer(5)

    with pytest.raises(InvalidRequestError, match="timers are only supported on keyed streams"):
        run(stream(Types.INT()).process(Timed(), Types.INT()), [1])


class PlusMinus(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[int]:
        yield value + 1

    def flat_map2(self, value: int) -> Iterator[int]:
        yield value - 1


class Sides(CoMapFunction):
    def map1(self, value: Any) -> str:
        return f"first {value}"

    def map2(self, value: Any) -> str | None:
        return f"second {value}" if value else None


class SideNumbers(CoProcessFunction):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield ODD, value

    def process_element2(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value


@pytest.fixture
def both() -> tuple[DataStream, DataStream]:
    return stream(Types.INT()), stream(Types.INT())


def test_each_stream_has_its_method(both: tuple[DataStream, DataStream]) -> None:
    made = both[0].connect(both[1]).flat_map(PlusMinus(), Types.INT())
    assert sorted(run(made, [1, 2, 3], [10, 20])) == [2, 3, 4, 9, 19]


def test_a_co_map_emits_nothing_for_none(both: tuple[DataStream, DataStream]) -> None:
    made = both[0].connect(both[1]).map(Sides(), Types.STRING())
    assert run(made, [1], [0, 2]) == ["first 1", "second 2"]


def test_connected_streams_may_have_different_types() -> None:
    made = stream(PAIR).connect(stream(Types.STRING())).map(Sides(), Types.STRING())
    assert run(made, [("a", 1)], ["b"]) == ["first ('a', 1)", "second b"]


def test_a_co_process_function_has_side_outputs(both: tuple[DataStream, DataStream]) -> None:
    made = both[0].connect(both[1]).process(SideNumbers(), Types.INT())
    made._node.side_outputs = (ODD,)  # type: ignore[union-attr]
    assert run(made, [1], [2]) == [2]
    assert run(made, [1], [2], side="odd") == [1]


@pytest.mark.parametrize("method", ["map", "flat_map", "filter", "process"])
def test_anything_but_a_function_is_refused(method: str) -> None:
    with pytest.raises(TypeError, match="The input must be a"):
        getattr(stream(Types.INT()), method)(5)
