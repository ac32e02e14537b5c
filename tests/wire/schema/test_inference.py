"""Types inferred from annotations of functions and from values."""

import functools
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from queryable_state.wire.rows import make_row
from queryable_state.wire.schema.inference import (
    annotated_type,
    infer_type,
    type_of_value,
    type_of_values,
)
from queryable_state.wire.schema.row import Row
from queryable_state.wire.schema.types import Types, type_info
from queryable_state.wire.values.value_codec import ValueCodec


class Pair(NamedTuple):
    word: str
    times: int


@dataclass
class Reading:
    sensor: str
    degrees: float


class Counter:
    def __call__(self, word: str) -> tuple[str, int]:
        return word, 1

    def map(self, word: str) -> Reading:
        return Reading(word, 0.0)


def length(word: str) -> int:
    return len(word)


def words(line: str) -> Iterable[str]:
    return line.split()


def pairs(line: str) -> Iterator[Pair] | None:
    return None


def generated(line: str) -> Generator[tuple[str, int], None, None]:
    yield line, 1


def nothing_known(value):  # type: ignore[no-untyped-def]
    return value


def unresolved(value: int) -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
    return value


@pytest.mark.parametrize(
    ("function", "elements", "written"),
    [
        (length, False, "bigint"),
        (functools.partial(length, "x"), False, "bigint"),
        (Counter(), False, "tuple<string,bigint>"),
        (Counter().map, False, "sensor string, degrees double"),
        (int, False, "bigint"),
        (Pair, False, "word string, times bigint"),
        (words, True, "string"),
        (pairs, True, "word string, times bigint"),
        (generated, True, "tuple<string,bigint>"),
    ],
)
def test_the_annotation_of_a_function_gives_the_type_of_its_result(
    function: Callable[..., Any], elements: bool, written: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert infer_type(function, "map", elements=elements) == type_info(written)
    assert annotated_type(function, elements=elements) == type_info(written)
    assert not caplog.records


def test_a_function_that_emits_nothing_needs_no_type(caplog: pytest.LogCaptureFixture) -> None:
    def count(word: str) -> None:
        """Emits nothing."""

    assert infer_type(count, "process", elements=True) == Types.PICKLED_BYTE_ARRAY()
    assert not caplog.records


@pytest.mark.parametrize(
    ("function", "elements", "text"),
    [
        (nothing_known, False, "no return annotation"),
        (lambda value: value, False, "no return annotation"),
        (len, False, "no return annotation"),
        (words, False, "Iterable[str] is not a type"),
        (length, True, "no iterable of elements"),
        (unresolved, False, "'Nowhere' is not defined"),
    ],
)
def test_an_unknown_result_is_pickled_and_the_log_names_the_reason(
    function: Callable[..., Any], elements: bool, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert annotated_type(function, elements=elements) is None
    assert infer_type(function, "map 'm'", elements=elements) == Types.PICKLED_BYTE_ARRAY()
    (record,) = caplog.records
    assert "map 'm'" in record.getMessage()
    assert text in record.getMessage()


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([1, None, -(2**63)], "bigint"),
        ([1, 2**63], "big_int"),
        ([1, 2.5], "double"),
        ([True], "boolean"),
        ([b"x", bytearray(b"y")], "binary"),
        ([Decimal("1.5")], "decimal(38,18)"),
        ([date(2013, 1, 31)], "date"),
        ([datetime(2013, 1, 31, tzinfo=UTC)], "timestamp"),
        ([datetime(2013, 1, 31)], "timestamp_ntz"),  # noqa: DTZ001 - a wall-clock time
        ([[], [None, 1]], "array<bigint>"),
        ([{"a": 1}, {}, {"b": None}], "map<string,bigint>"),
        ([("a", None), (None, 1.5)], "tuple<string,double>"),
        ([Pair("a", 1)], "word string, times bigint"),
        ([Reading("a", 1.0)], "sensor string, degrees double"),
        ([Row(a=1, b="x"), make_row(("a", "b"), (None, "y"))], "a bigint, b string"),
        ([Row(1, "x")], "f0 bigint, f1 string"),
        (
            [make_row(("a", "b"), (1, "x")), make_row(("a", "b"), (None, None))],
            "a bigint, b string",
        ),
    ],
)
def test_values_give_their_type(
    values: list[Any], written: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert type_of_values(values) == type_info(written)
    assert not caplog.records


@pytest.mark.parametrize(
    ("value", "written", "text"),
    [
        (object(), "pickled", "values of object"),
        (None, "pickled", "only nulls"),
        (2**200, "pickled", "values of int"),
        ((1, None), "tuple<bigint,pickled>", "[1]: it has only nulls"),
        ([], "array<pickled>", "lists are empty"),
        ({}, "pickled", "maps are empty"),
        ([1, "a"], "array<pickled>", "values of int, str"),
        ({1: 1, "a": 1}, "pickled", "values of dict"),
        (make_row(("a",), ([(1,), (1, 2)],)), "a array<pickled>", "a[]: it has values of tuple"),
    ],
)
def test_unknown_parts_of_values_are_pickled_and_named_in_the_log(
    value: Any, written: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert type_of_value(value, "from_collection") == type_info(written)
    (record,) = caplog.records
    assert record.getMessage().startswith("from_collection: ")
    assert text in record.getMessage()


def test_values_can_be_stored_as_their_inferred_type() -> None:
    value = ("a", [1, 2], {"x": (1.5, None)}, 2**70)
    codec = ValueCodec.of(type_of_value(value), pickler=pickle.dumps, unpickle=True)
    assert codec.decode(codec.encode(value)) == value
