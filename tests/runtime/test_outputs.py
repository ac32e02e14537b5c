"""Outputs are of the output type as values of a state are of theirs, or refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from queryable_state.streaming.functions import KeyedProcessFunction, UserFunctionError
from queryable_state.streaming.testing import KeyedOperatorHarness

if TYPE_CHECKING:
    from queryable_state.streaming.functions import Context

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class PutOut(KeyedProcessFunction):
    def __init__(self, outputs: list[Any]) -> None:
        self.outputs = outputs

    def process_element(self, value: Any, ctx: Context) -> list[Any]:
        return self.outputs


def outputs(spec: str, *values: Any) -> list[Any]:
    harness = KeyedOperatorHarness(
        PutOut([(value,) for value in values]),
        "int",
        key_by="value",
        output_type=f"v {spec}",
        parallelism=1,
    )
    return [row.v for row in harness.process([1])]


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("array<bigint>", [1, 1.5]),
        ("array<bigint>", "ab"),
        ("map<string,int>", {"a": 0.5}),
        ("struct<a:int>", (1.5,)),
        ("float", 1e39),
        ("date", NOON),
        ("timestamp", NOON.replace(tzinfo=None)),
        ("timestamp", 5),
        ("timestamp_ntz", NOON),
        ("bigint", True),
        ("bigint", 1.0),
        ("decimal(4,1)", Decimal("1.25")),
    ],
)
def test_an_output_that_would_lose_something_is_refused(spec: str, value: Any) -> None:
    with pytest.raises(UserFunctionError, match="the output column 'v' is"):
        outputs(spec, value)


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        ("array<bigint>", (1, True, np.int64(2)), [1, 1, 2]),
        ("array<double>", np.array([0.5]), [0.5]),
        ("map<bigint,array<int>>", {True: (1,)}, {1: [1]}),
        ("struct<a:int,b:double>", {"b": 1}, (None, 1.0)),
        ("float", 0.1, float(np.float32(0.1))),
        ("timestamp", NOON.astimezone(timezone(timedelta(hours=2))), NOON),
        ("decimal(4,1)", Decimal(1), Decimal("1.0")),
    ],
)
def test_an_output_takes_its_normal_form(spec: str, value: Any, expected: Any) -> None:
    """Whatever else is put out beside it."""
    assert outputs(spec, value, None, value) == [expected, None, expected]
    assert outputs(spec, value) == [expected]


@pytest.mark.parametrize("returned", ["abc", {"abc": 1}])
def test_one_output_that_is_returned_is_not_put_out_in_parts(returned: Any) -> None:
    function = PutOut(returned)
    harness = KeyedOperatorHarness(function, "int", key_by="value", output_type="string")
    with pytest.raises(UserFunctionError, match=r"it returned a .*: yield outputs, or return a l"):
        harness.process([1])
