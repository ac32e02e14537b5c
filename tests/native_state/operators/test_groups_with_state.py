"""Groups with state of the user: state formats 1 and 2, with and without timeouts."""

from __future__ import annotations

import pytest
from tests.native_state.operators.decoded_records import scanned
from tests.native_state.operators.state_fixture import load


@pytest.mark.parametrize("name", ["groups-format-1", "groups-format-2"])
def test_the_state_has_the_fields_that_the_user_declared(name: str) -> None:
    """Format 2 nests them in a struct; both give the same value."""
    fixture = load(name)
    value_type = fixture.layouts["groups"].definition.value_type
    assert value_type is not None
    assert value_type.simple_string() == "struct<cnt:bigint,label:string>"
    nested = name.endswith("2")
    expected = [
        (row["key"], row["value"][0] if nested else row["value"])
        for row in fixture.expected["0.default"]
    ]
    found = [(each.key, each.value) for each in scanned(fixture, "groups")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_timeout_stands_behind_the_fields_of_the_state() -> None:
    """`timeoutTimestamp` is -1 for a group without a timeout."""
    fixture = load("groups-timeout")
    expected = [
        (row["key"], [*row["value"][0], row["value"][1]]) for row in fixture.expected["0.default"]
    ]
    found = [(each.key, each.value) for each in scanned(fixture, "groups")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {each.value[2] for each in scanned(fixture, "groups")} > {-1}


def test_a_state_of_a_scala_class_has_its_fields() -> None:
    """`flatMapGroupsWithState` of a case class; the key of a function is the key itself."""
    fixture = load("groups-scala")
    definition = fixture.layouts["groups"].definition
    assert definition.key_type.simple_string() == "boolean"
    assert definition.value_type is not None
    assert definition.value_type.simple_string() == (
        "struct<total:bigint,last:int,names:array<string>>"
    )
    expected = [(row["key"], row["value"][0]) for row in fixture.expected["0.default"]]
    found = [(each.key, each.value) for each in scanned(fixture, "groups")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_state_of_a_primitive_type_is_a_scalar() -> None:
    """`mapGroupsWithState` of a Long stores a row of one column `value`."""
    fixture = load("groups-scalar")
    value_type = fixture.layouts["groups"].definition.value_type
    assert value_type is not None
    assert value_type.simple_string() == "bigint"
    expected = [(row["key"], row["value"][0]) for row in fixture.expected["0.default"]]
    found = [(each.key, [each.value]) for each in scanned(fixture, "groups")]
    assert sorted(found) == sorted(expected)
