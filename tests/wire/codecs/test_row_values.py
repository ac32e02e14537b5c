"""What may be passed for a row, and the Python classes that rows are delivered as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import pytest

from queryable_state.wire.errors import SerializationError
from queryable_state.wire.rows import make_row
from queryable_state.wire.schema.row import Row, RowKind
from queryable_state.wire.schema.types import TypeInfo, type_info
from queryable_state.wire.values.normal_form import is_mutable, normaliser
from queryable_state.wire.values.value_codec import ValueCodec

ROW = type_info("name string, age bigint")


@dataclass
class Person:
    name: str
    age: int | None


@dataclass(kw_only=True)
class KeywordPerson:
    name: str
    age: int


@dataclass
class OwnConstructor:
    name: str
    age: int

    def __init__(self, age: int, name: str, note: str = "") -> None:
        self.name, self.age = name, age


@dataclass
class Named:
    name: str


@dataclass
class Pet:
    name: str
    age: int
    species: str


class PersonTuple(NamedTuple):
    name: str
    age: int


class Reversed(NamedTuple):
    age: int
    name: str


class PersonDict(TypedDict):
    name: str
    age: int


@dataclass
class Family:
    father: Person
    children: list[PersonTuple]
    by_name: dict[str, KeywordPerson]


class WithAsDict:
    def asDict(self) -> dict[str, Any]:
        return {"name": "Alice", "age": 11}


def stored(value: Any, info: TypeInfo = ROW) -> Any:
    codec = ValueCodec.of(info)
    return codec.decode(codec.encode(value))


@pytest.mark.parametrize(
    "value",
    [
        ("Alice", 11),
        ["Alice", 11],
        {"age": 11, "name": "Alice"},
        make_row(["age", "name"], [11, "Alice"]),
        Row("Alice", 11),
        Row(name="Alice", age=11),
        Person("Alice", 11),
        KeywordPerson(name="Alice", age=11),
        PersonTuple("Alice", 11),
        Reversed(11, "Alice"),
        WithAsDict(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_row_may_be_passed_as(value: Any) -> None:
    assert stored(value) == ("Alice", 11)


def test_a_spark_row_may_be_passed() -> None:
    sql = pytest.importorskip("pyspark.sql")
    assert stored(sql.Row(age=11, name="Alice")) == ("Alice", 11)


def test_a_missing_field_is_null_and_an_unknown_one_is_refused() -> None:
    assert stored({"name": "Alice"}) == ("Alice", None)
    assert stored(Named("Alice")) == ("Alice", None)
    for value in (Pet("Rex", 3, "dog"), {"species": "dog"}, Row(name="Rex", species="dog")):
        with pytest.raises(SerializationError, match="no field 'species'"):
            stored(value)


def test_only_insertions_can_be_stored() -> None:
    row = Row("Alice", 11)
    row.set_row_kind(RowKind.DELETE)
    with pytest.raises(SerializationError, match="kind DELETE"):
        stored(row)


@pytest.mark.parametrize("cls", [Person, KeywordPerson, OwnConstructor, PersonTuple, PersonDict])
def test_rows_are_delivered_as_the_class_of_their_type(cls: type) -> None:
    value = stored(("Alice", 11), type_info(cls))
    assert value == cls(name="Alice", age=11)
    assert type(value) is (dict if cls is PersonDict else cls)


@dataclass
class Adult:
    age: int

    def __post_init__(self) -> None:
        if self.age < 18:
            raise ValueError("too young")


def test_a_class_that_refuses_its_fields_is_named() -> None:
    with pytest.raises(SerializationError, match=r"class Adult refused.*too young"):
        stored((11,), type_info(Adult))


def test_classes_are_delivered_at_every_depth() -> None:
    family = Family(
        Person("Bob", None), [PersonTuple("Alice", 11)], {"a": KeywordPerson(name="a", age=1)}
    )
    assert stored(family, type_info(Family)) == family


def test_values_of_an_older_version_are_delivered_as_the_class_too() -> None:
    old = type_info("children array<struct<name:string,age:bigint>>, father struct<name:string>")
    new = type_info(Family)
    data = ValueCodec({1: old}, 1).encode(([("Alice", 11)], ("Bob",)))
    found = ValueCodec({1: old, 2: new}, 2).decode(data)
    assert found.father == Person("Bob", None)
    assert found.children == [PersonTuple("Alice", 11)]
    assert type(found.children[0]) is PersonTuple
    assert found.by_name is None


def test_named_tuples_have_a_normal_form_and_dataclasses_are_mutable() -> None:
    info = type_info(PersonTuple)
    normalise = normaliser(info, ValueCodec.of(info).read_back)
    value = PersonTuple("Alice", 11)
    assert normalise(value) is value
    assert type(normalise(("Alice", 11))) is PersonTuple
    assert type(normalise({"name": "Alice"})) is PersonTuple
    assert not is_mutable(info)
    assert is_mutable(type_info(Person))
    assert is_mutable(type_info(PersonDict))
