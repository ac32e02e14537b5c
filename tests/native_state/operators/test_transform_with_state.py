"""transformWithState: state variables of each kind, time to live and timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.operators.decoded_records import scanned
from tests.native_state.operators.state_fixture import RawPartition, load

from queryable_state.server.storage.overlay import Overlay, StateOverlay
from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.timer_keys import Clock
from queryable_state.wire.values.value_codec import timestamp_of

if TYPE_CHECKING:
    from tests.native_state.operators.state_fixture import StateFixture

PROCESSORS = [
    "processor-pandas",
    "processor-rows",
    "processor-two-keys",
    "processor-changelog",
    "processor-checksums",
]


def _values(fixture: StateFixture, state: str) -> list[Any]:
    """Key, for a map the entry's key, and value in Spark's answer."""
    rows = fixture.expected[f"0.{state}"]
    if state == "bytag":
        return [(row["key"], row["user_map_key"], row["user_map_value"]) for row in rows]
    if state == "items":
        return [(row["key"], row["list_element"]) for row in rows]
    return [(row["key"], row["value"]) for row in rows]


@pytest.mark.parametrize("name", PROCESSORS)
def test_each_state_variable_is_a_state_of_its_name(name: str) -> None:
    """Column families of Spark's own, such as counters of lists, are no states."""
    layouts = load(name).layouts
    timers = {"timers"} if name == "processor-rows" else set()
    assert set(layouts) == {"total", "cnt", "items", "bytag"} | timers
    kinds = {state: layout.definition.kind for state, layout in layouts.items()}
    assert kinds["total"] == kinds["cnt"] == registration_pb2.VALUE
    assert kinds["items"] == registration_pb2.LIST
    assert kinds["bytag"] == registration_pb2.MAP


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_value_is_that_of_sparks_reader(name: str) -> None:
    """Rows are rows; a row of one column `value` is the scalar in it."""
    fixture = load(name)
    found = [(each.key, each.value) for each in scanned(fixture, "total")]
    assert sorted(found, key=repr) == sorted(_values(fixture, "total"), key=repr)
    scalars = [(each.key, [each.value]) for each in scanned(fixture, "cnt")]
    assert sorted(scalars, key=repr) == sorted(_values(fixture, "cnt"), key=repr)


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_list_has_the_elements_of_sparks_reader(name: str) -> None:
    """Appended and replaced elements of each key equal Spark's."""
    fixture = load(name)
    expected: dict[str, list[Any]] = {}
    for key, element in _values(fixture, "items"):
        expected.setdefault(repr(key), []).append(element)
    found: dict[str, list[Any]] = {}
    for each in scanned(fixture, "items"):
        found.setdefault(repr(each.key), []).append(each.value)
    assert {key: sorted(map(repr, value)) for key, value in found.items()} == {
        key: sorted(map(repr, value)) for key, value in expected.items()
    }


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_map_has_an_entry_for_each_key_of_it(name: str) -> None:
    """Entries equal Spark's; the key of one column is that column."""
    fixture = load(name)
    found = [(each.key, [each.element], each.value) for each in scanned(fixture, "bytag")]
    assert sorted(found, key=repr) == sorted(_values(fixture, "bytag"), key=repr)
    map_key_type = fixture.layouts["bytag"].definition.map_key_type
    assert map_key_type is not None
    assert map_key_type.simple_string() == "string"


def test_timers_are_records_of_their_key() -> None:
    """Clock and time of each registered timer; a second one of a key is another record."""
    fixture = load("processor-rows")
    expected = [
        (row["key"], (Clock.EVENT_TIME, row["expiration_timestamp_ms"]), None)
        for row in fixture.expected["0.timers"]
    ]
    found = [(each.key, each.element, each.value) for each in scanned(fixture, "timers")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_value_is_absent_from_its_expiry_on() -> None:
    """The time of the batch decides: at the expiry the value is gone, a millisecond before not."""
    fixture = load("processor-ttl")
    layout = fixture.layouts["total"]
    raw = fixture.partitions(layout)[0]
    (key, value), *_ = layout.scan(raw, 0)
    expiry_ms = timestamp_of(value)
    assert expiry_ms is not None
    before, at = (
        fixture.partitions(layout, expiry_ms - 1)[0],
        fixture.partitions(layout, expiry_ms)[0],
    )
    assert layout.get(before, key) == value
    assert layout.get(at, key) is None
    assert layout.prefix(at, key) == []
    assert key not in dict(layout.scan(at, 0))


@pytest.mark.parametrize("state", ["total", "items", "bytag"])
@pytest.mark.parametrize("name", ["processor-ttl", "processor-avro"])
def test_values_with_a_ttl_equal_sparks(name: str, state: str) -> None:
    """No value had expired at the batch; rows are UnsafeRows or in Avro form."""
    fixture = load(name)
    layout = fixture.layouts[state]
    assert layout.definition.has_ttl
    found = []
    for each in scanned(fixture, state):
        entry = ([each.element],) if state == "bytag" else ()
        found.append((each.key, *entry, each.value))
    expected = [(*keys, value[0]) for *keys, value in _values(fixture, state)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_elements_of_a_list_expire_one_by_one() -> None:
    """A list loses the elements that have expired and keeps the others."""
    fixture = load("processor-ttl")
    layout = fixture.layouts["items"]
    raw = fixture.partitions(layout)[0]
    expiries = sorted({timestamp_of(value) or 0 for _, value in layout.scan(raw, 0)})
    assert len(expiries) > 1
    remaining = scanned(fixture, "items", expiries[0])
    assert 0 < len(remaining) < len(scanned(fixture, "items"))
    assert scanned(fixture, "items", expiries[-1]) == []


def test_a_limited_read_finds_entries_behind_an_expired_one() -> None:
    """A limit counts the entries that have not expired, wherever the expired one is."""
    fixture = load("processor-ttl")
    layout = fixture.layouts["bytag"]
    records = fixture.stores[0][0][0]
    whole = RawPartition([records], fixture.batch_time_ms)
    entries = 0
    for raw_key, value in records.items():
        change = Overlay({0: StateOverlay({raw_key: None})}, 0, 0)
        for wire_key in layout.changed_keys(change, 0):
            entries += 1
            # Version, null bits, place of the inner row, expiry.
            expired = value[:17] + (1).to_bytes(8, "little") + value[25:]
            raw = RawPartition([{**records, raw_key: expired}], fixture.batch_time_ms)
            left = len(layout.prefix(whole, wire_key)) - 1
            assert len(layout.prefix(raw, wire_key)) == left
            assert len(layout.prefix(raw, wire_key, 1)) == 1
    assert entries == len(fixture.expected["0.bytag"])


@pytest.mark.parametrize("state", ["total", "items", "bytag"])
def test_rows_of_an_earlier_schema_are_read_as_the_newest(state: str) -> None:
    """Keys that no later batch wrote lack the added fields, which are null."""
    fixture = load("processor-evolved")
    found = []
    for each in scanned(fixture, state):
        entry = ([each.element],) if state == "bytag" else ()
        found.append((each.key, *entry, each.value))
    assert sorted(found, key=repr) == sorted(_values(fixture, state), key=repr)
    value_type = fixture.layouts["total"].definition.value_type
    assert value_type is not None
    assert value_type.simple_string() == "struct<label:string,sum:double,seen:bigint>"


def test_state_variables_of_scala_have_the_types_of_their_encoders() -> None:
    """Primitive types are scalars, in maps and lists, too; classes are rows."""
    fixture = load("processor-scala")
    types = {
        name: None if (info := layout.definition.value_type) is None else info.simple_string()
        for name, layout in fixture.layouts.items()
    }
    case_class = "struct<total:bigint,last:int,names:array<string>>"
    assert types == {
        "v": case_class,
        "c": "bigint",
        "l": "string",
        "mm": case_class,
        "t": "bigint",
        "timers": None,
    }
    map_keys = [fixture.layouts[name].definition.map_key_type for name in ("mm", "t")]
    assert [info and info.simple_string() for info in map_keys] == [
        "int",
        "struct<_1:int,_2:string>",
    ]
    elements = [(each.key, [each.value]) for each in scanned(fixture, "l")]
    expected = [(row["key"], row["list_element"]) for row in fixture.expected["0.l"]]
    assert sorted(elements) == sorted(expected)
    entries = [(each.key, each.element, [each.value]) for each in scanned(fixture, "t")]
    expected_entries = [
        (row["key"], row["user_map_key"], row["user_map_value"][0])
        for row in fixture.expected["0.t"]
    ]
    assert sorted(entries) == sorted(expected_entries)
