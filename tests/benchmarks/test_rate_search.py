"""The search for the highest rate that an open loop holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks.rate_search import RateSearch

if TYPE_CHECKING:
    from collections.abc import Callable


def search(holds: Callable[[float], bool], first: float) -> tuple[float, list[float]]:
    """The highest rate, and all tried rates."""
    rates = RateSearch(first, resolution=1.1)
    tried = []
    while (rate := rates.next_rate()) is not None:
        tried.append(rate)
        rates.record(holds(rate))
    return rates.highest, tried


@pytest.mark.parametrize("limit", [4_000.0, 4_100.0, 77_000.0])
def test_it_ends_within_the_resolution_below_the_limit(limit: float) -> None:
    found, _ = search(lambda rate: rate <= limit, 4_000.0)
    assert limit / 1.1 <= found <= limit


def test_it_ends_with_0_if_the_first_rates_are_not_held() -> None:
    found, tried = search(lambda _: False, 4_000.0)
    assert found == 0
    assert tried == [4_000.0, 4_000.0, 6_000.0, 6_000.0]


def test_a_failed_rate_below_a_held_one_does_not_end_the_climb() -> None:
    found, _ = search(lambda rate: rate != 6_000 and rate <= 30_000, 4_000.0)
    assert 30_000 / 1.1 <= found <= 30_000


def test_one_bad_try_of_three_is_not_a_failure() -> None:
    tries: dict[float, int] = {}

    def holds(rate: float) -> bool:
        tries[rate] = tries.get(rate, 0) + 1
        return rate <= 10_000 and tries[rate] != 1

    found, _ = search(holds, 4_000.0)
    assert 10_000 / 1.1 <= found <= 10_000


def test_one_good_try_of_three_does_not_hold_a_rate() -> None:
    tries: dict[float, int] = {}

    def holds(rate: float) -> bool:
        tries[rate] = tries.get(rate, 0) + 1
        return rate <= 10_000 or tries[rate] == 1

    found, _ = search(holds, 4_000.0)
    assert found <= 10_000
