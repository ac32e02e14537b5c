"""Aggregations: state formats 1 and 2, windows in the key, and no key."""

from __future__ import annotations

import pytest
from tests.native_state.operators.decoded_records import scanned
from tests.native_state.operators.state_fixture import load

from queryable_state.v1 import registration_pb2


@pytest.mark.parametrize(
    "name",
    [
        "aggregation-format-1",
        "aggregation-format-2",
        "aggregation-checksums",
        "aggregation-streamline",
    ],
)
def test_the_buffers_are_those_of_sparks_reader(name: str) -> None:
    """Keys and buffers equal Spark's; format 1 stores the key in the value, too.

    The same with checksums in front of rows, and for Spark's aggregation row by row.
    """
    fixture = load(name)
    keys = 2 if name.endswith("1") else 0
    expected = [
        (row["partition_id"], row["key"], row["value"][keys:])
        for row in fixture.expected["0.default"]
    ]
    found = [(each.partition, each.key, each.value) for each in scanned(fixture, "aggregation")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("name", ["aggregation-format-1", "aggregation-format-2"])
def test_buffers_of_one_name_are_numbered(name: str) -> None:
    """Two sums are `sum` and `sum_2`: fields of a row have different names."""
    definition = load(name).layouts["aggregation"].definition
    assert definition.kind == registration_pb2.VALUE
    assert definition.key_type.simple_string() == "struct<city:string,user:bigint>"
    assert definition.value_type is not None
    names = [field.name for field in definition.value_type.fields]
    assert names == ["sum", "sum_2", "sum_3", "count", "count_2", "max", "buf", "last", "valueSet"]
    assert definition.format == f"state format {name[-1]}"


def test_a_window_is_a_column_of_the_key() -> None:
    """The key of a windowed aggregation has the window as a row of start and end."""
    fixture = load("aggregation-windows")
    definition = fixture.layouts["aggregation"].definition
    assert definition.key_type.simple_string() == (
        "struct<city:string,window:struct<start:timestamp,end:timestamp>>"
    )
    expected = [(row["key"], row["value"]) for row in fixture.expected["0.default"]]
    found = [(each.key, each.value) for each in scanned(fixture, "aggregation")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_an_aggregation_without_key_has_the_key_0() -> None:
    """Its only row is that of key 0 in the only partition; no other key has a value."""
    fixture = load("aggregation-global")
    layout = fixture.layouts["aggregation"]
    assert layout.definition.partitions == 1
    (row,) = fixture.expected["0.default"]
    (found,) = scanned(fixture, "aggregation")
    assert (found.key, found.value) == ([0], row["value"])
    (raw,) = fixture.partitions(layout)
    ((key, _),) = layout.scan(raw, 0)
    other = key[:2] + bytes([key[2] ^ 1]) + key[3:]
    assert layout.get(raw, other) is None
    assert layout.prefix(raw, other[:-1]) == []
