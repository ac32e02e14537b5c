"""Damaged raw records: reads raise CorruptDataError or leave the damage out, and they end."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from tests.native_state.operators.state_fixture import NAMES, RawPartition, load

from queryable_state.wire.errors import CorruptDataError

_ROUNDS = 5


def _damaged(records: dict[bytes, bytes], random: Random) -> dict[bytes, bytes]:
    """The records with changed or cut bytes in three of them."""
    damaged = dict(records)
    for key in random.sample(sorted(records), min(3, len(records))):
        value = bytearray(damaged.pop(key))
        raw_key = bytearray(key)
        part = random.choice([value, raw_key])
        if random.random() < 0.5:
            del part[random.randrange(len(part) + 1) :]
        elif part:
            part[random.randrange(len(part))] = random.randrange(256)
        damaged[bytes(raw_key)] = bytes(value)
    return damaged


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_told_or_left_out(name: str) -> None:
    """No other error than that of damage, whatever bytes are wrong."""
    fixture, random = load(name), Random(name)
    for layout in fixture.layouts.values():
        stores = fixture.stores[layout.definition.operator_id][0]
        keys = [key for key, _ in layout.scan(RawPartition(stores, fixture.batch_time_ms), 0)]
        for _ in range(_ROUNDS):
            raw = RawPartition([_damaged(each, random) for each in stores], fixture.batch_time_ms)
            with suppress(CorruptDataError):
                list(layout.scan(raw, 0))
            for key in keys:
                with suppress(CorruptDataError):
                    layout.get(raw, key)


@pytest.mark.timeout(20)
def test_a_damaged_number_of_rows_of_a_join_ends_the_read() -> None:
    """A number of rows that is far too great is damage instead of an endless read."""
    fixture = load("join-format-2")
    layout = fixture.layouts["left"]
    counts, rows, *others = fixture.stores[0][0]
    huge = {key: value[:9] + (1 << 60).to_bytes(8, "little") for key, value in counts.items()}
    raw = RawPartition([huge, rows, *others], fixture.batch_time_ms)
    with pytest.raises(CorruptDataError, match="are missing"):
        list(layout.scan(raw, 0))
