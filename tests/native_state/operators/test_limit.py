"""Limits: the number of rows that were let through."""

from __future__ import annotations

from tests.native_state.operators.decoded_records import scanned
from tests.native_state.operators.state_fixture import load


def test_a_limit_counts_the_rows_it_let_through() -> None:
    """The counter is at key 0 of the only partition."""
    fixture = load("limit")
    (row,) = fixture.expected["0.default"]
    (found,) = scanned(fixture, "limit")
    assert (found.partition, found.key, [found.value]) == (0, [0], row["value"])
