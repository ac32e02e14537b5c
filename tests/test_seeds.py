"""Seeds of random programs."""

from __future__ import annotations

import argparse

import pytest
from tests import seeds


def test_seeds_are_numbers_and_ranges() -> None:
    assert seeds.parse("7") == [7]
    assert seeds.parse("3,5-7,1") == [3, 5, 6, 7, 1]


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2"])
def test_what_is_no_seed_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="1-60,99"):
        seeds.parse(text)


def test_a_few_seeds_are_not_wide() -> None:
    wide = ["wide" in {mark.name for mark in each.marks} for each in seeds.parameters(None)]
    assert wide == [False] * seeds.IN_LONG_TESTS + [True] * (60 - seeds.IN_LONG_TESTS)
    assert [each.values for each in seeds.parameters([9])] == [(9,)]
