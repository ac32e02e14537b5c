"""What holds for every state: reads by key, prefix and scan agree, over real raw records."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from tests.native_state.operators.state_fixture import NAMES, RawPartition, load

from queryable_state.server.storage.overlay import Overlay, StateOverlay
from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.key_groups import KeyGroups

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.state_layout import StateLayout

Records = list[tuple[bytes, bytes]]


def _states() -> list[tuple[str, str]]:
    return [(name, state) for name in NAMES for state in load(name).layouts]


@pytest.fixture(params=_states(), ids="-".join)
def state(request: pytest.FixtureRequest) -> tuple[StateLayout, list[RawPartition]]:
    name, state = request.param
    fixture = load(name)
    layout = fixture.layouts[state]
    return layout, fixture.partitions(layout)


def _by_key(layout: StateLayout, partition: int, raw: RawPartition) -> dict[bytes, Records]:
    """The scanned records by wire key, in the order of the scan."""
    groups = KeyGroups(layout.definition.key_type, layout.definition.partitions)
    records = list(layout.scan(raw, partition))

    def wire_key(record: tuple[bytes, bytes]) -> bytes:
        return record[0][: groups.codec.decode(record[0], 2)[1]]

    keys = [(key, list(found)) for key, found in groupby(records, wire_key)]
    assert len(dict(keys)) == len(keys), "the records of a key come together"
    return dict(keys)


def test_get_finds_each_scanned_record(state: tuple[StateLayout, list[RawPartition]]) -> None:
    """A look-up by the store key of a record gives its value."""
    layout, partitions = state
    for partition, raw in enumerate(partitions):
        for key, value in layout.scan(raw, partition):
            assert layout.get(raw, key) == value


def test_prefix_gives_the_records_of_a_key(state: tuple[StateLayout, list[RawPartition]]) -> None:
    """A read by wire key gives the scanned records in the order of store keys, or some of them."""
    layout, partitions = state
    for partition, raw in enumerate(partitions):
        for key, records in _by_key(layout, partition, raw).items():
            assert records == sorted(records)
            assert layout.prefix(raw, key) == records
            for limit in (1, 2, len(records) + 1):
                some = layout.prefix(raw, key, limit)
                assert len(some) == min(limit, len(records))
                assert set(some) <= set(records)


def test_a_scan_goes_on_behind_any_key(state: tuple[StateLayout, list[RawPartition]]) -> None:
    """A scan that continues behind a key gives the records of all later keys."""
    layout, partitions = state
    for partition, raw in enumerate(partitions):
        keys = _by_key(layout, partition, raw)
        rest = [record for records in keys.values() for record in records]
        for key, records in keys.items():
            rest = rest[len(records) :]
            assert list(layout.scan(raw, partition, key)) == rest


def test_spark_keeps_each_key_in_the_partition_of_its_hash(
    state: tuple[StateLayout, list[RawPartition]],
) -> None:
    """The key group that clients compute for a key is the partition that has it."""
    layout, partitions = state
    groups = KeyGroups(
        layout.definition.key_type, layout.definition.partitions, registration_pb2.SPARK_HASH
    )
    for partition, raw in enumerate(partitions):
        for key in _by_key(layout, partition, raw):
            assert groups.wire_key(groups.decode_key(key)) == key


def test_changes_of_all_raw_records_touch_all_keys(
    state: tuple[StateLayout, list[RawPartition]],
) -> None:
    """The wire keys of changed raw records are those whose records the changes are."""
    layout, partitions = state
    for partition, raw in enumerate(partitions):
        changed = {
            source: StateOverlay(dict(raw.scan(source, b"", None))) for source in layout.sources
        }
        keys = set(layout.changed_keys(Overlay(changed, 0, 0), partition))
        assert keys == set(_by_key(layout, partition, raw))
        nothing = Overlay({max(layout.sources) + 1: StateOverlay({b"\xff": None})}, 0, 0)
        assert not list(layout.changed_keys(nothing, partition))
