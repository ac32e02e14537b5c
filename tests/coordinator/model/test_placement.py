"""Placement of subtasks on servers: quota, stickiness and leases."""

from __future__ import annotations

import pytest
from tests.coordinator.model.cluster import LEASE_MS, MARGIN_MS, Cluster

from queryable_state.wire.errors import PlacementError, Reason, SupersededError


def test_the_first_to_ask_gets_a_subtask_and_keeps_it(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.register("b")
    assert cluster.assign(0, "a") == "a"
    assert cluster.assign(0, "b") == "a"


def test_nobody_gets_more_than_its_share(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.register("b")
    owners = [cluster.assign(index, "a") for index in range(4)]
    assert sorted(owners) == ["a", "a", "b", "b"]


def test_a_subtask_beyond_every_share_waits_for_executors_without_a_server(
    cluster: Cluster,
) -> None:
    cluster.register("a")
    assert [cluster.assign(index, "a", executors=2) for index in (0, 1)] == ["a", "a"]
    with pytest.raises(PlacementError) as refusal:
        cluster.assign(2, "a", executors=2)
    assert refusal.value.reason == Reason.NO_OWNER
    assert refusal.value.retry_after_ms > 0
    cluster.register("b")
    assert cluster.assign(2, "a", executors=2) == "b"


def test_it_waits_for_them_only_a_moment(cluster: Cluster) -> None:
    cluster.register("a")
    for index in (0, 1):
        cluster.assign(index, "a", executors=2)
    with pytest.raises(PlacementError):
        cluster.assign(2, "a", executors=2)
    cluster.now_ms += 2_000
    assert cluster.assign(2, "a", executors=2) == "a"
    assert cluster.assign(3, "a", executors=2) == "a"


def test_an_owner_that_lapsed_is_replaced_only_after_lease_and_margin(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.register("b")
    cluster.assign(0, "a")
    cluster.now_ms = LEASE_MS + MARGIN_MS - 1
    cluster.servers.renew("b", cluster.now_ms)
    with pytest.raises(PlacementError) as refusal:
        cluster.assign(0, "b", not_server="a")
    assert refusal.value.reason == Reason.NO_OWNER
    cluster.now_ms += 1
    assert cluster.assign(0, "b", not_server="a") == "b"


def test_a_lapsed_owner_that_comes_back_first_keeps_its_subtasks(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.assign(0, "a")
    cluster.now_ms = 10 * LEASE_MS
    assert cluster.servers.sweep(cluster.now_ms)
    assert cluster.placement.owner(cluster.operator(), 0) is None
    cluster.servers.renew("a", cluster.now_ms)
    assert cluster.servers.sweep(cluster.now_ms)
    assert cluster.assign(0, "a") == "a"


def test_an_owner_heard_of_lately_is_given_whoever_complains(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.register("b")
    cluster.assign(0, "a")
    assert cluster.assign(0, "b", not_server="a") == "a"


def test_a_newer_server_of_an_executor_frees_what_the_older_one_owned(cluster: Cluster) -> None:
    cluster.register("a", "executor 1")
    cluster.register("b", "executor 2")
    cluster.assign(0, "a")
    cluster.register("c", "executor 1")
    assert cluster.placement.owner(cluster.operator(), 0) is None
    assert cluster.assign(0, "b") == "b"
    with pytest.raises(SupersededError) as refusal:
        cluster.register("a", "executor 1")
    assert "replaced by c" in str(refusal.value)


def test_a_server_that_lapsed_long_ago_is_forgotten(cluster: Cluster) -> None:
    """Or executors that come and go would add up for as long as the driver lives."""
    cluster.register("a")
    cluster.register("b")
    cluster.now_ms = 24 * LEASE_MS
    cluster.servers.renew("b", cluster.now_ms)
    assert not cluster.servers.remove_long_lapsed(cluster.now_ms)
    cluster.now_ms = 1_000 * LEASE_MS
    cluster.servers.renew("b", cluster.now_ms)
    assert [gone.server_id for gone in cluster.servers.remove_long_lapsed(cluster.now_ms)] == ["a"]
    assert [server.server_id for server in cluster.servers] == ["b"]
    with pytest.raises(PlacementError) as refusal:
        cluster.servers.renew("a", cluster.now_ms)
    assert refusal.value.reason == Reason.LEASE_EXPIRED


def test_a_server_without_a_lease_gets_nothing(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.now_ms = LEASE_MS
    with pytest.raises(PlacementError) as refusal:
        cluster.assign(0, "a")
    assert refusal.value.reason == Reason.LEASE_EXPIRED


def test_every_change_of_an_owner_raises_the_version(cluster: Cluster) -> None:
    cluster.register("a")
    cluster.operator()
    before = cluster.placement.version
    cluster.assign(0, "a")
    assigned = cluster.placement.version
    cluster.assign(0, "a")
    assert before < assigned == cluster.placement.version
    cluster.placement.free("a")
    assert cluster.placement.version > assigned
