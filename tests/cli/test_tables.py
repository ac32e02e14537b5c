"""Figures as people read them, and tables that grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.cli.tables import (
    GrowingTable,
    age_text,
    bytes_text,
    cell,
    iso_text,
    ms_text,
    percent_text,
    table,
    time_text,
    us_text,
)


def test_columns_are_aligned_and_nothing_trails() -> None:
    assert table(("key", "value"), [("a", "1"), ("longer", "")]) == [
        "key     value",
        "a       1",
        "longer",
    ]
    assert table(("key", "value"), []) == ["key  value"]


def test_a_table_widens_for_what_comes() -> None:
    growing = GrowingTable(("key", "value"))
    assert growing.add([("a", "1")]) == ["key  value", "a    1"]
    assert growing.add([("longer", "2"), ("b", "3")]) == ["longer  2", "b       3"]
    assert growing.add([]) == []


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_a_cell_is_one_short_line_and_moves_no_cursor(value: object) -> None:
    text = cell(value)
    assert text.isprintable()
    assert len(text) <= 100


def test_cells_are_json_but_for_the_quotes_of_a_string() -> None:
    assert cell("a b") == "a b"
    assert cell("ü") == "ü"
    assert cell({"ü": [1, None]}) == '{"ü": [1, null]}'
    assert cell(None) == "null"
    assert cell("null") == '"null"'
    assert cell("\x1b[2J") == '"\\u001b[2J"'
    assert cell("x" * 200).endswith("x...")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (us_text(85), "85 us"),
        (us_text(1234), "1.2 ms"),
        (us_text(2_500_000), "2.5 s"),
        (ms_text(120), "120 ms"),
        (bytes_text(1536), "1.5 KiB"),
        (percent_text(1, 8), "12 %"),
        (percent_text(1, 0), ""),
        (time_text(0), ""),
        (time_text(1_359_626_400_000), "2013-01-31 10:00:00Z"),
    ],
)
def test_figures_have_the_unit_that_fits(text: str, expected: str) -> None:
    assert text == expected


def test_times_beyond_the_calendar_are_numbers() -> None:
    assert time_text((1 << 63) - 1) == "end of time"
    assert time_text(-(1 << 63)) == f"{-(1 << 63)} ms"
    assert iso_text(1 << 60) == str(1 << 60)
    assert iso_text(-1) == "1969-12-31T23:59:59.999Z"


def test_an_age_is_in_the_largest_unit_that_fits() -> None:
    ages = (900, 119_000, 120_000, 7_199_000, 7_200_000, 400_000_000)
    assert [age_text(ms) for ms in ages] == ["0 s", "119 s", "2 min", "119 min", "2 h", "4 d"]
