"""`TimeWindow` in keys that Spark groups by a window."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.wire.keys.spark_keys import nullable

from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.errors import InvalidRequestError, KeyTypeError
from queryable_state.wire.json_text import key_from_json, to_jsonable
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.window_keys import is_window_type
from queryable_state.wire.schema.types import type_info

KEY = "carrier string, window struct<start:{0},end:{0}>"
START, END = datetime(2013, 1, 31, tzinfo=UTC), datetime(2013, 1, 31, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_window_is_its_start_and_end(kind: str) -> None:
    groups = KeyGroups(nullable(KEY.format(kind)), 5, SPARK_HASH)
    zone = UTC if kind == "timestamp" else None
    times = START.replace(tzinfo=zone), END.replace(tzinfo=zone)
    wire_key = groups.wire_key(("AA", times))
    assert groups.wire_key(("AA", TimeWindow(START, END))) == wire_key
    assert groups.decode_key(wire_key) == ("AA", times)
    assert (
        KeyGroups(groups.key_type, 128).wire_key(("AA", TimeWindow(START, END)))[2:] == wire_key[2:]
    )


@pytest.mark.parametrize(
    "window",
    [
        '{"start": "2013-01-31T00:00:00Z", "end": "2013-01-31T01:00:00Z"}',
        '{"start_ms": 1359590400000, "end_ms": 1359594000000}',
        '["2013-01-31T00:00:00Z", "2013-01-31T01:00:00Z"]',
    ],
)
def test_json_has_times_or_milliseconds(window: str) -> None:
    groups = KeyGroups(nullable(KEY.format("timestamp")), 5, SPARK_HASH)
    key = key_from_json(f'{{"carrier": "AA", "window": {window}}}', groups.key_type)
    assert groups.wire_key(key) == groups.wire_key(("AA", (START, END)))
    assert to_jsonable(key, groups.key_type) == {
        "carrier": "AA",
        "window": {"start": "2013-01-31T00:00:00Z", "end": "2013-01-31T01:00:00Z"},
    }


def test_other_rows_are_no_windows() -> None:
    assert not is_window_type(type_info("start timestamp"))
    assert not is_window_type(type_info("start bigint, end bigint"))
    with pytest.raises(KeyTypeError, match="TimeWindow"):
        KeyGroups(type_info("start bigint, end bigint")).wire_key(TimeWindow(0, 1))


def test_windows_outside_of_time_are_refused() -> None:
    groups = KeyGroups(type_info("start timestamp, end timestamp"))
    with pytest.raises(KeyTypeError, match="years 1 to 9999"):
        groups.wire_key(TimeWindow(0, 1 << 60))
    with pytest.raises(InvalidRequestError):
        key_from_json('{"start_ms": 1, "end_ms": 0}', groups.key_type)
    with pytest.raises(InvalidRequestError):
        key_from_json('{"start_ms": "a", "end_ms": 0}', groups.key_type)
