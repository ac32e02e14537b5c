"""Errors of batch functions name what failed and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.runtime.vectorised.running_totals import RunningTotals

from queryable_state.streaming import (
    BatchKeys,
    BatchRuntimeContext,
    BatchState,
    KeyedBatchProcessFunction,
    ListStateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.operators.operators import KeyedBatchProcess
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.wire.errors import InvalidRequestError, JobError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS: list[str] = []


class Calling(KeyedBatchProcessFunction):
    """Calls a function of the state and returns what it returns."""

    def __init__(self, call: Callable[[BatchState], Any]) -> None:
        self.call = call

    def open(self, runtime_context: BatchRuntimeContext) -> None:
        CALLS.append(f"open{runtime_context.get_index_of_this_subtask()}")
        self.s = runtime_context.get_state(ValueStateDescriptor("s", "int"))
        runtime_context.get_state(ValueStateDescriptor("row", "a INT, b STRING"))

    def process_batch(self, keys: BatchKeys, table: pa.Table, state: BatchState) -> Any:
        return self.call(state)

    def close(self) -> None:
        CALLS.append("close")


def run(call: Callable[[BatchState], Any], output_type: str = "a INT, b STRING") -> list[Any]:
    """Runs the call for the chunk of two keys."""
    harness = KeyedOperatorHarness(
        Calling(call), "k BIGINT", key_by="k", output_type=output_type, parallelism=1
    )
    return harness.process([(1,), (2,), (1,)])


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (pa.table({"a": ["x"], "b": ["y"]}), r"column 'a' must be int: Arrow type string is not"),
        (pa.table({"a": [1.0], "b": ["y"]}), r"column 'a' must be int: Arrow type double is not"),
        (pa.table({"a": [2**40], "b": ["y"]}), r"column 'a' must be int: .*1099511627776"),
        (pa.table({"a": [1]}), r"the columns are a int64, but .* a int, b string"),
        (pa.table({"a": [1], "b": ["y"], "c": [1]}), r"the columns are a int64, b string, c int64"),
        (pa.array([1]), "a column is not a table"),
        ([(1, "x")], "a tuple is not a pyarrow Table"),
        ({"a": [1], "b": ["y"]}, "a dict is not a pyarrow Table .*: convert it"),
        (pd.DataFrame({"a": [1], "b": ["y"]}), "a DataFrame is not .*pyarrow.Table.from_pandas"),
        (5, "a int is not a pyarrow Table"),
    ],
)
def test_an_output_of_another_type_is_refused_by_column_and_types(output: Any, text: str) -> None:
    with pytest.raises(UserFunctionError, match=f"not of the output type .*{text}"):
        run(lambda _: output)


def test_a_bare_output_is_a_column_or_a_table_with_the_column_value() -> None:
    assert run(lambda _: np.array([1, 2]), "bigint") == [1, 2]
    assert run(lambda _: pa.table({"value": [3]}), "bigint") == [3]
    with pytest.raises(UserFunctionError, match="the columns are n int64"):
        run(lambda _: pa.table({"n": [3]}), "bigint")


def test_an_exception_names_operator_and_chunk_and_closes_the_function() -> None:
    CALLS.clear()

    def fail(state: BatchState) -> Any:
        raise ValueError("no luck")

    with pytest.raises(
        UserFunctionError,
        match=r"operator 'operator' .* process_batch failed for a chunk of 3 rows of 2 keys: "
        "ValueError: no luck",
    ):
        run(fail)
    assert CALLS == ["open0", "close"]


def test_an_exception_of_a_generator_is_reported_alike() -> None:
    def fail(state: BatchState) -> Any:
        yield pa.table({"a": [1], "b": ["x"]})
        raise ValueError("no luck")

    with pytest.raises(UserFunctionError, match="ValueError: no luck"):
        run(fail)


def rows(**columns: Any) -> pa.Table:
    return pa.table(columns)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda state: state["s"].update(pa.array([1])), "1 values were given for 2 keys"),
        (lambda state: state["s"].update(pa.array(["1", "2"])), "Arrow type string is not int"),
        (lambda state: state["s"].update(pa.array([1, 2**40])), "state 's', which is int: "),
        (lambda state: state["s"].update(7), "update of state 's'"),
        (
            lambda state: state["row"].update(rows(a=[1, 2])),
            "the columns are a int64, but .* a int, b string",
        ),
        (
            lambda state: state["row"].update(rows(a=[1, 2], b=[1, 2])),
            "column 'b' must be string: Arrow type int64",
        ),
        (lambda state: state["row"].update(pa.array([1, 2])), "int64 is not a struct"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_call_that_writes_it(
    call: Callable[[BatchState], Any], text: str
) -> None:
    with pytest.raises(SerializationError, match=text) as refused:
        run(call)
    assert "a chunk of 3 rows of 2 keys" in refused.value.__notes__[0]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (pa.array([True]), "a mask of 1 values for 2 keys"),
        ([0, 2], "position 2 of 2 keys"),
        ([-1], "position -1 of 2 keys"),
        ([0, 0], "a position twice"),
        ([0.5], "a selection of type float64"),
    ],
)
def test_a_selection_that_is_none_is_refused(where: Any, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"state 's' was called with {text}"):
        run(lambda state: state["s"].clear(where))


def test_a_state_that_was_not_declared_is_refused_with_the_declared_ones() -> None:
    with pytest.raises(InvalidRequestError, match=r"state 't' was not declared.*: s, row"):
        run(lambda state: state["t"])


def test_a_state_is_used_only_in_process_batch() -> None:
    kept: list[Any] = []
    run(lambda state: kept.append(state["s"]))
    with pytest.raises(JobError, match="state 's' is used outside process_batch"):
        kept[0].values()


class WithList(RunningTotals):
    def open(self, runtime_context: BatchRuntimeContext) -> None:
        runtime_context.get_list_state(ListStateDescriptor("all", "int"))


def test_only_value_states_have_columns() -> None:
    harness = KeyedOperatorHarness(WithList(), "k INT", key_by="k", output_type="int")
    with pytest.raises(InvalidRequestError, match="has value states only"):
        harness.process([])


def test_a_hook_that_nothing_calls_is_refused() -> None:
    timed: Any = type("Timed", (RunningTotals,), {"on_timer": lambda self: None})
    with pytest.raises(InvalidRequestError, match=r"Timed\.on_timer would never"):
        KeyedBatchProcess(timed())
