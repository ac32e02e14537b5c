"""Errors that a user's function raises: how they name operator, batch and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.errors.scripted import ROWS, WHERE, Scripted, scripted

from queryable_state.streaming.functions import ReducingStateDescriptor, UserFunctionError
from queryable_state.streaming.runtime.operators.operators import Reduce
from queryable_state.streaming.testing import KeyedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import Context


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
