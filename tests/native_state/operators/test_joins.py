"""Stream-stream joins: rows of both sides by join key, in all state formats."""

from __future__ import annotations

import pytest
from tests.native_state.operators.decoded_records import scanned
from tests.native_state.operators.state_fixture import load

from queryable_state.v1 import registration_pb2

FORMATS = ["2", "3", "4"]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("version", FORMATS)
def test_the_rows_of_a_side_are_those_of_sparks_reader(version: str, side: str) -> None:
    """Rows by join key equal Spark's, whose reader leaves out the flag behind them.

    In format 4 it adds to the key a column of bytes that are none.
    """
    fixture = load(f"join-format-{version}")
    expected = [
        (row["partition_id"], row["key"][:2], row["value"]) for row in fixture.expected[f"0.{side}"]
    ]
    found = [(each.partition, each.key, each.value[:-1]) for each in scanned(fixture, side)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("version", FORMATS)
def test_a_side_is_a_list_by_join_key(version: str) -> None:
    """A key of two columns is a row; `matched` tells the rows that were joined."""
    layouts = load(f"join-format-{version}").layouts
    assert sorted(layouts) == ["left", "right"]
    left = layouts["left"].definition
    assert left.kind == registration_pb2.LIST
    assert left.key_type.simple_string() == "struct<field0:bigint,field1:string>"
    assert left.value_type is not None
    assert left.value_type.simple_string() == (
        "struct<user:bigint,lts:timestamp,amount:double,city:string,matched:boolean>"
    )
    assert left.format == f"state format {version}"


def test_all_formats_hold_the_same_rows() -> None:
    """The same input gives the same rows, flags among them, whatever the format."""
    rows = {
        version: sorted(
            repr((each.key, each.value)) for each in scanned(load(f"join-format-{version}"), "left")
        )
        for version in FORMATS
    }
    assert rows["2"] == rows["3"] == rows["4"]


def test_a_join_without_event_time_in_format_4_has_all_rows() -> None:
    """Spark spreads such rows over buckets in place of times."""
    fixture = load("join-format-4-no-time")
    expected = [(row["key"][:1], row["value"]) for row in fixture.expected["0.left"]]
    found = [(each.key, each.value[:-1]) for each in scanned(fixture, "left")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_one_side_of_two_joins_needs_the_number_of_its_operator() -> None:
    """Aggregations in front of a join are two operators of one name."""
    assert sorted(load("join-of-aggregations").layouts) == [
        "aggregation_1",
        "aggregation_2",
        "left",
        "right",
    ]
