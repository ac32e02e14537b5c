"""Counters of refused queries."""

from __future__ import annotations

import pytest

from queryable_state.server.security.access.grants import StateName
from queryable_state.server.security.admission.recent_refusals import RecentRefusals, Refusal

LAST = StateName("0" * 32, "sensors", "last")


def refusal(caller: str) -> Refusal:
    return Refusal(caller, LAST, "queries_per_s")


def test_refusals_count_for_a_minute_and_in_total_for_ever() -> None:
    now_s = 0.0
    refusals = RecentRefusals(lambda: now_s)
    refusals.add(refusal("me"))
    now_s = 54.0
    refusals.add(refusal("me"))
    refusals.add(refusal("you"))
    assert refusals.last_minute() == {refusal("me"): 2, refusal("you"): 1}
    now_s = 61.0
    assert refusals.last_minute() == {refusal("me"): 1, refusal("you"): 1}
    now_s = 200.0
    assert not refusals.last_minute()
    assert refusals.total == {"queries_per_s": 3}


@pytest.mark.parametrize("callers", [256, 1000])
def test_many_callers_do_not_grow_it(callers: int) -> None:
    refusals = RecentRefusals(lambda: 0.0)
    for number in range(callers):
        refusals.add(refusal(f"caller {number}"))
    assert len(refusals.last_minute()) == 256
    assert refusals.total.total() == callers
