"""The parallelism and the key groups of an operator, within a run and across runs."""

from __future__ import annotations

import pytest
from tests.coordinator.model.cluster import NEXT_RUN, QUERY, RUN, Cluster, move, opened

from queryable_state.wire.errors import InvalidRequestError, JobError


def test_a_new_run_may_change_the_parallelism_and_loses_the_state(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    opened(cluster, 0, "a", 0)
    rescaled = cluster.placement.declare(QUERY, "op", 2, 128, NEXT_RUN)
    assert cluster.placement.owner(rescaled, 0) is None
    assert not list(cluster.placement.opened_by("a"))
    for index in (0, 1):
        cluster.placement.assign(rescaled, index, cluster.servers.get("a"), 1, 0)
    assert cluster.placement.open_empty(rescaled, 0, "a", 6, 0).complete_since == 6
    assert cluster.placement.open_empty(rescaled, 1, "a", 7, 0).complete_since == 6


def test_a_new_parallelism_does_not_hide_what_was_lost_before_it(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    opened(cluster, 0, "a", 0)
    move(cluster, 0, "b")
    assert opened(cluster, 0, "b", 7) == 7
    # Batch 7 failed, and the query was started again with another parallelism.
    rescaled = cluster.placement.declare(QUERY, "op", 2, 128, NEXT_RUN)
    cluster.placement.assign(rescaled, 0, cluster.servers.get("b"), 1, 0)
    assert cluster.placement.open_empty(rescaled, 0, "b", 7, 0).complete_since == 7


def test_a_new_parallelism_in_the_first_batch_loses_nothing(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    opened(cluster, 0, "a", 3, first=3)
    rescaled = cluster.placement.declare(QUERY, "op", 2, 128, NEXT_RUN)
    cluster.placement.assign(rescaled, 0, cluster.servers.get("a"), 1, 0)
    assert cluster.placement.open_empty(rescaled, 0, "a", 3, 3).complete_since == 3


def test_one_run_has_one_parallelism(cluster: Cluster) -> None:
    cluster.operator(4)
    with pytest.raises(JobError, match="its own uid"):
        cluster.operator(8)


def test_key_groups_are_for_life(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    opened(cluster, 0, "a", 0)
    with pytest.raises(JobError, match="set max_parallelism to 128"):
        cluster.placement.declare(QUERY, "op", 4, 64, NEXT_RUN)


def test_key_groups_nobody_opened_bind_no_later_run(cluster: Cluster) -> None:
    cluster.operator(4)
    assert cluster.placement.declare(QUERY, "op", 4, 64, NEXT_RUN).max_parallelism == 64


@pytest.mark.parametrize(("parallelism", "most"), [(0, 128), (129, 128), (4, 40_000)])
def test_a_parallelism_that_cannot_be_is_refused(
    cluster: Cluster, parallelism: int, most: int
) -> None:
    with pytest.raises(InvalidRequestError):
        cluster.placement.declare(QUERY, "op", parallelism, most, RUN)
