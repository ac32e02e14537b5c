"""Who owns which subtask: quota, stickiness, leases, and what is lost by a move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator.model.placement import Placement
from queryable_state.server.coordinator.model.servers import Server, ServerTable
from queryable_state.wire.errors import (
    InvalidRequestError,
    JobError,
    PlacementError,
    Reason,
    SupersededError,
)

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.operators import Operator

LEASE_MS, MARGIN_MS = 5_000, 500
QUERY, RUN, NEXT_RUN = b"q" * 16, b"r" * 16, b"s" * 16


class Cluster:
    """A placement and its servers, with time moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.servers = ServerTable(lease_ms=LEASE_MS, margin_ms=MARGIN_MS)
        self.placement = Placement(self.servers, version=1)

    def register(self, server_id: str, executor_id: str = "") -> Server:
        request = coordinator_pb2.RegisterServerRequest(
            server_id=server_id,
            executor_id=executor_id or f"executor of {server_id}",
            backend_address=f"{server_id}:1",
        )
        server, gone = self.servers.register(request, self.now_ms)
        for old in gone:
            self.placement.free(old.server_id)
        return server

    def operator(self, parallelism: int = 4, run_id: bytes = RUN) -> Operator:
        return self.placement.declare(QUERY, "op", parallelism, 128, run_id)

    def assign(self, index: int, asker: str, *, executors: int = 1, not_server: str = "") -> str:
        operator = self.operator()
        self.servers.sweep(self.now_ms)
        settled = self.placement.reachable_owner(operator, index, not_server, self.now_ms)
        if settled is not None:
            return settled.server_id
        server = self.servers.get(asker)
        return self.placement.assign(operator, index, server, executors, self.now_ms).server_id


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


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


def opened(cluster: Cluster, index: int, server: str, batch: int, first: int = 0) -> int:
    opening = cluster.placement.open_empty(cluster.operator(), index, server, batch, first)
    return opening.complete_since


def move(cluster: Cluster, index: int, to: str) -> None:
    owner = cluster.placement.owner(cluster.operator(), index)
    assert owner is not None
    cluster.servers.remove(owner.server_id)
    cluster.placement.free(owner.server_id)
    cluster.register(to)
    cluster.assign(index, to)


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
