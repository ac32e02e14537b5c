"""Deduplication: keys that were seen, without watermark, with one, and within one."""

from __future__ import annotations

import pytest
from tests.native_state.operators.decoded_records import scanned
from tests.native_state.operators.state_fixture import load


@pytest.mark.parametrize("name", ["deduplication", "deduplication-watermark"])
def test_each_key_that_was_seen_is_true(name: str) -> None:
    """The keys are Spark's, and a key without a record was not seen."""
    fixture = load(name)
    expected = [(row["partition_id"], row["key"], True) for row in fixture.expected["0.default"]]
    found = [(each.partition, each.key, each.value) for each in scanned(fixture, "deduplication")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_within_a_watermark_a_key_has_its_expiry() -> None:
    """The value is the watermark, in microseconds, at which Spark forgets the key."""
    fixture = load("deduplication-within-watermark")
    definition = fixture.layouts["deduplication"].definition
    assert definition.value_type is not None
    assert definition.value_type.simple_string() == "struct<expiresAtMicros:bigint>"
    expected = [(row["key"], row["value"]) for row in fixture.expected["0.default"]]
    found = [(each.key, each.value) for each in scanned(fixture, "deduplication")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
