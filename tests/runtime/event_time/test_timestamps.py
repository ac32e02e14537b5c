"""Timestamps of an event-time column, in milliseconds since the epoch."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.streaming.runtime.columns.event_time import CurrentTime, timestamps

MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
"""From the year 1 to the year 9999."""


@given(st.lists(st.none() | MICROS), st.sampled_from([None, "UTC", "Europe/Berlin"]))
def test_they_are_rounded_down_whatever_the_year_and_the_time_zone(
    micros: list[int | None], zone: str | None
) -> None:
    column = pa.array(micros, pa.int64()).cast(pa.timestamp("us", zone))
    wanted = [None if each is None else each // 1000 for each in micros]
    assert timestamps(column).to_pylist() == wanted
    assert timestamps(timestamps(column)).to_pylist() == wanted


def test_the_time_moves_with_the_elements_and_is_none_without_an_event_time_column() -> None:
    time = CurrentTime()
    rows = pa.record_batch({"at": pa.array([5_000, None, 7_999], pa.timestamp("us"))})
    assert [time.ms for _ in time.over(iter("abc"), rows, "at")] == [5, None, 7]
    assert [time.ms for _ in time.over(iter("abc"), rows, "")] == [None] * 3


def test_a_row_without_an_element_is_a_defect() -> None:
    rows = pa.record_batch({"at": pa.array([1, 2], pa.int64())})
    with pytest.raises(ValueError, match="zip"):
        list(CurrentTime().over(iter("a"), rows, "at"))
