"""The first batch since which a subtask's state is complete, after moves and restarts."""

from __future__ import annotations

import pytest
from tests.coordinator.model.cluster import Cluster, move, opened

from queryable_state.wire.errors import PlacementError, Reason


def test_state_is_complete_where_it_never_moved(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    assert opened(cluster, 0, "a", 0) == 0


def test_a_subtask_first_run_in_a_later_batch_has_lost_nothing(cluster: Cluster) -> None:
    cluster.register("a")
    for index in (0, 1):
        cluster.assign(index, "a")
    assert opened(cluster, 0, "a", 0) == 0
    assert opened(cluster, 1, "a", 3) == 0


def test_a_move_loses_what_was_committed_before_it(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    opened(cluster, 0, "a", 0)
    move(cluster, 0, "b")
    assert opened(cluster, 0, "b", 7) == 7


def test_a_move_within_the_first_batch_loses_nothing(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    opened(cluster, 0, "a", 0)
    move(cluster, 0, "b")
    assert opened(cluster, 0, "b", 0) == 0


def test_a_second_move_within_a_batch_does_not_hide_the_first(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    opened(cluster, 0, "a", 0)
    move(cluster, 0, "b")
    opened(cluster, 0, "b", 4)
    move(cluster, 0, "c")
    assert opened(cluster, 0, "c", 4) == 4


def test_an_owner_that_opens_again_later_has_lost_its_store(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    opened(cluster, 0, "a", 0)
    assert opened(cluster, 0, "a", 0) == 0
    assert opened(cluster, 0, "a", 5) == 5


def test_a_query_first_seen_past_its_first_batch_is_complete_since_then(cluster: Cluster) -> None:
    cluster.register("a")
    for index in (0, 1):
        cluster.assign(index, "a")
    assert opened(cluster, 0, "a", 12, first=12) == 12
    assert opened(cluster, 1, "a", 13, first=12) == 12


def test_only_the_owner_opens(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.register("b")
    cluster.assign(0, "a")
    with pytest.raises(PlacementError) as refusal:
        opened(cluster, 0, "b", 0)
    assert refusal.value.reason == Reason.NOT_OWNER
