"""Actions of the sinks of rounds are drawn by seed and batch, and their rows are known."""

from __future__ import annotations

from tests.chaos.history.history import History
from tests.chaos.jobs.sink_plans import ACTIONS, NO_ACTION, action_of, rows_of_batch
from tests.chaos.jobs.workload import rows_of
from tests.plans import PRUNED_PLANS

SEED = 4


def test_a_batch_that_runs_again_has_the_same_action() -> None:
    drawn = [action_of(SEED, batch) for batch in range(50)]
    assert drawn == [action_of(SEED, batch) for batch in range(50)]
    assert drawn != [action_of(SEED + 1, batch) for batch in range(50)]


def test_every_action_is_drawn_and_some_leave_operators_out() -> None:
    drawn = {action_of(seed, batch) for seed in range(20) for batch in range(50)}
    assert drawn == set(ACTIONS)
    for seed in range(20):
        assert {action_of(seed, batch) for batch in range(30)} & {NO_ACTION, *PRUNED_PLANS}


def test_the_rows_of_a_batch_are_its_groups_with_their_counts() -> None:
    first = rows_of(SEED, 0)
    found = rows_of_batch(History(SEED), 0)
    counts = {row.group: sum(row.group == each.group for each in first) for row in first}
    assert found == sorted((group, count % 90 + 1) for group, count in counts.items())
