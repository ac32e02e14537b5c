"""Python classes and annotations as types."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, NewType, Optional, Required, TypedDict

import pytest

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import TypeInfo, Types, type_info


class Place(NamedTuple):
    name: str
    floor: int | None


class Limits(TypedDict, total=False):
    low: Required[float]
    high: float


@dataclass
class Reading:
    sensor: str
    place: Place
    limits: list[Limits]
    level: Annotated[int, Types.BYTE()] = 0


@dataclass
class Node:
    children: list[Node]


@dataclass
class Unresolved:
    value: Nowhere  # type: ignore[name-defined]  # noqa: F821 - what the test is about


@dataclass
class WithInitVar:
    value: int
    extra: InitVar[int]


@dataclass
class WithComputed:
    value: int
    doubled: int = field(init=False)


SensorId = NewType("SensorId", str)


@pytest.mark.parametrize(
    ("annotation", "written"),
    [
        (bool, "boolean"),
        (int, "bigint"),
        (float, "double"),
        (str, "string"),
        (bytes, "binary"),
        (Decimal, "decimal(38,18)"),
        (date, "date"),
        (datetime, "timestamp"),
        (list[int], "array<bigint>"),
        (Sequence[str], "array<string>"),
        (dict[str, float], "map<string,double>"),
        (Mapping[int, list[bool]], "map<bigint,array<boolean>>"),
        (tuple[str, int], "tuple<string,bigint>"),
        (int | None, "bigint"),
        (Optional[str], "string"),  # noqa: UP045 - the old spelling is accepted, too
        (list[int | None], "array<bigint>"),
        (SensorId, "string"),
        (Annotated[int, "a comment"], "bigint"),
        (Annotated[object, Types.PICKLED_BYTE_ARRAY()], "pickled"),
        (Place, "name string, floor bigint"),
        (Limits, "low double, high double"),
        (
            Reading,
            (
                "sensor string, place struct<name:string,floor:bigint>,"
                "limits array<struct<low:double,high:double>>, level tinyint"
            ),
        ),
    ],
)
def test_a_class_or_annotation_is_a_type(annotation: Any, written: str) -> None:
    assert type_info(annotation) == type_info(written)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (list, "give for example list[int]"),
        (dict, "give for example dict"),
        (tuple, "give for example tuple"),
        (set[int], "set[int] is not a type"),
        (Any, "not a type"),
        (object, "not a type"),
        (None, "not a type"),
        (int | str, "union of several types"),
        (tuple[int, ...], "any number of fields"),
        (list[complex], "element: complex is not a type"),
        (dict[str, set[int]], "value: set[int]"),
        (Node, "field 'children' of Node, element: class Node contains itself"),
        (Unresolved, "'Nowhere' is not defined"),
        (WithInitVar, "'extra' is an InitVar"),
        (WithComputed, "'doubled'"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(annotation: Any, text: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        type_info(annotation)
    assert text in str(raised.value)


def test_a_row_type_keeps_its_class_only_within_the_program() -> None:
    info = type_info(Reading)
    assert info.python_class is Reading
    assert info.fields[1].type.python_class is Place
    assert info == TypeInfo.from_proto(info.to_proto())
    assert TypeInfo.from_proto(info.to_proto()).python_class is None
    assert pickle.loads(pickle.dumps(info)).python_class is Reading


def test_a_python_class_may_stand_inside_another_type() -> None:
    assert Types.LIST(int) == Types.LIST(Types.LONG())
    assert Types.ROW_NAMED(["a"], [Place]).fields[0].type.python_class is Place


def test_a_class_of_spark_types_is_no_python_type() -> None:
    spark_types = pytest.importorskip("pyspark.sql.types")
    with pytest.raises(InvalidRequestError, match="DataType instance"):
        type_info(spark_types.LongType)
