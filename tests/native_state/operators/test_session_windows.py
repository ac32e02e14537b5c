"""Session windows: a value by key and window."""

from __future__ import annotations

from itertools import count, groupby

from tests.native_state.operators.decoded_records import scanned
from tests.native_state.operators.state_fixture import load

from queryable_state.server.native_state.operators.layouts.window_layout import SessionLayout
from queryable_state.wire.keys.store_keys import micros_namespace
from queryable_state.wire.keys.time_window import MICROS_WINDOW_TYPE


def test_each_session_is_a_window_of_its_key() -> None:
    """Key, window and buffers equal Spark's; the value has the exact window, too."""
    fixture = load("sessions")
    definition = fixture.layouts["sessions"].definition
    assert definition.namespace_type == MICROS_WINDOW_TYPE
    assert definition.key_type.simple_string() == "string"
    expected = []
    for row in fixture.expected["0.default"]:
        _, (start, end), *buffers = row["value"]
        window = start, end
        expected.append((row["partition_id"], row["key"][:1], window, [[start, end], *buffers]))
    found = [
        (each.partition, each.key, each.window, each.value) for each in scanned(fixture, "sessions")
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_one_session_is_read_by_its_window() -> None:
    """A look-up names start and end; another end is another window."""
    fixture = load("sessions")
    layout = fixture.layouts["sessions"]
    raw = fixture.partitions(layout)[0]
    key, value = next(iter(layout.scan(raw, 0)))
    namespace = key[-17:]
    assert layout.prefix(raw, key) == [(key, value)]
    wire_key = key[: -len(namespace)]
    assert layout.get(raw, wire_key + micros_namespace(0, 1)) is None
    assert layout.prefix(raw, wire_key + micros_namespace(0, 1)) == []


def test_a_scan_of_windows_goes_on_within_a_key() -> None:
    """Behind a window the scan gives the later windows of its key, then the other keys."""
    fixture = load("sessions")
    layout = fixture.layouts["sessions"]
    raw = fixture.partitions(layout)[0]
    records = list(layout.scan(raw, 0))
    for position, (key, _) in enumerate(records):
        assert list(layout.scan(raw, 0, key)) == records[position + 1 :]


def test_sessions_within_a_millisecond_are_apart() -> None:
    """Each is a record of its own, in order, and is read by its own bounds."""
    fixture = load("sessions")
    layout = fixture.layouts["sessions"]
    assert isinstance(layout, SessionLayout)
    starts = count()
    close = SessionLayout(layout.definition, layout._table, lambda raw: (next(starts), 900, raw))
    raw = fixture.partitions(layout)[0]
    keys = [key[:-17] for key, _ in layout.scan(raw, 0)]
    several = next(key for key, same in groupby(keys) if len(list(same)) > 1)
    found = [key for key, _ in close.prefix(raw, several)]
    assert len(found) == keys.count(several)
    assert found == sorted(set(found))
    starts = count()
    assert close.get(raw, several + micros_namespace(1, 900)) is not None
    assert len(list(close.scan(raw, 0))) == len(keys)
