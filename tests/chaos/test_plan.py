"""A seed is a round: the same faults in the same order, all of them in the long run."""

from __future__ import annotations

import collections

import pytest
from tests.chaos.jobs.sink_plans import FILE_SINK_PLANS
from tests.chaos.plan import FAULTS, OF_DRIVER, OF_SINK, RoundPlan


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_plans_the_same_round_again(seed: int) -> None:
    assert RoundPlan.of(seed) == RoundPlan.of(seed)


def test_fifty_rounds_have_every_fault_and_every_kind_of_round() -> None:
    plans = [RoundPlan.of(seed) for seed in range(50)]
    struck = collections.Counter(strike.fault for plan in plans for strike in plan.strikes)
    assert set(struck) == set(FAULTS)
    assert {plan.standalone for plan in plans} == {True, False}
    assert {plan.file_sink for plan in plans} == {True, False}


def test_rounds_have_random_actions_or_a_plan_in_front_of_their_file_sink() -> None:
    plans = [RoundPlan.of(seed) for seed in range(200)]
    assert {plan.sink_plan for plan in plans if plan.file_sink} == set(FILE_SINK_PLANS)
    assert {plan.sink_plan for plan in plans if not plan.file_sink} == {""}
    assert {plan.random_actions for plan in plans if not plan.file_sink} == {True, False}
    assert not any(plan.random_actions for plan in plans if plan.file_sink)


def test_drivers_are_killed_where_workers_outlive_them() -> None:
    for seed in range(200):
        plan = RoundPlan.of(seed)
        faults = {strike.fault for strike in plan.strikes}
        assert plan.standalone or not faults & {*OF_DRIVER, *OF_SINK}
        assert plan.file_sink or not faults & set(OF_SINK)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_is_asked_for_gets_a_round_it_can_strike_in(fault: str) -> None:
    for seed in range(20):
        plan = RoundPlan.of(seed, only=(fault,))
        assert [strike.fault for strike in plan.strikes] == [fault]
        assert plan.standalone or fault not in {*OF_DRIVER, *OF_SINK}
        assert plan.file_sink == (fault in OF_SINK)
