"""Operator state that tasks write to state servers: queries, failover, restarts and rescaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.operator_state.test_broadcast import LIMITS, Alerts

from queryable_state.client import Consistency
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import BroadcastOperatorHarness, KeyedOperatorHarness
from queryable_state.streaming.testing.local_cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queryable_state.streaming import (
        FunctionInitializationContext,
        FunctionSnapshotContext,
        RuntimeContext,
    )
    from queryable_state.streaming.testing.local_cluster import ClusterQuery

KEYS = [f"sensor_{number}" for number in range(12)]


def queryable(descriptor: Any) -> Any:
    descriptor.set_queryable(descriptor.name)
    return descriptor


class Everything(KeyedProcessFunction, CheckpointedFunction):
    """Writes each kind of operator state, and a keyed one, in each batch."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.items = store.get_list_state(queryable(ListStateDescriptor("items", Types.STRING())))
        # Read before the other states are declared: the task begins here, and once more later.
        self.kept = list(self.items.get())
        self.own = store.get_union_list_state(queryable(ListStateDescriptor("own", Types.LONG())))
        self.batches = store.get_broadcast_state(
            queryable(MapStateDescriptor("batches", Types.LONG(), Types.STRING()))
        )
        self.union_before = self.own.get()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.count = runtime_context.get_state(
            queryable(ValueStateDescriptor("count", Types.LONG()))
        )

    def process_element(self, value: Any, ctx: Any) -> None:
        self.kept.append(value.sensor)
        self.count.update((self.count.value() or 0) + 1)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.items.update(self.kept)
        self.own.update([*self.union_before, self.subtask])
        self.batches.put(context.get_checkpoint_id(), "seen")


def harness_of(query: ClusterQuery, parallelism: int, batch_id: int = 0) -> KeyedOperatorHarness:
    harness = KeyedOperatorHarness(
        Everything(), "sensor STRING", key_by="sensor", parallelism=parallelism, owner=query
    )
    harness.batch_id = batch_id
    return harness


@pytest.fixture(params=["heap", "rocksdb"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, servers=2, backend=request.param) as made:
        yield made


def read(cluster: LocalCluster, name: str, batch: int, server: int = 0) -> Any:
    host, _, port = cluster.proxy_address(server).rpartition(":")
    with QueryableStateClient(host, int(port), timeout_s=20) as client:
        return client.get_operator_state(
            "job", name, one_cut=False, consistency=Consistency.at_least(batch)
        )


def rows(keys: list[str]) -> list[tuple[str]]:
    return [(key,) for key in keys]


def test_clients_read_what_tasks_wrote(cluster: LocalCluster) -> None:
    harness = harness_of(cluster.start_query("job"), 3)
    harness.process(rows(KEYS))
    harness.process(rows(KEYS[:3]))
    for server in (0, 1):
        assert sorted(read(cluster, "items", 1, server).get()) == sorted(KEYS + KEYS[:3])
        assert [each.value for each in read(cluster, "own", 1, server)] == [[0, 0], [1, 1], [2, 2]]
        assert read(cluster, "batches", 1, server).get() == {0: "seen", 1: "seen"}


@pytest.mark.parametrize("checkpointed", [False, True], ids=["changelogs", "checkpoint"])
def test_a_killed_server_takes_no_operator_state_along(
    cluster: LocalCluster, checkpointed: bool
) -> None:
    query = cluster.start_query("job", durable=True)
    harness = harness_of(query, 3)
    harness.process(rows(KEYS))
    if checkpointed:
        query.take_checkpoint()
    harness.process(rows(KEYS[:3]))
    cluster.kill_server(cluster.servers[0])
    cluster.add_server()
    harness.process(rows(KEYS[3:6]))
    assert sorted(read(cluster, "items", 2).get()) == sorted(KEYS + KEYS[:6])
    assert [each.value for each in read(cluster, "own", 2)] == [[0] * 3, [1] * 3, [2] * 3]
    assert read(cluster, "batches", 2).get() == dict.fromkeys(range(3), "seen")


@pytest.mark.parametrize("checkpointed", [False, True], ids=["changelogs", "checkpoint"])
@pytest.mark.parametrize("parallelism", [3, 1])
def test_another_parallelism_deals_out_lists_and_copies_the_rest(
    cluster: LocalCluster, parallelism: int, checkpointed: bool
) -> None:
    query = cluster.start_query("job", durable=True)
    harness = harness_of(query, 2)
    harness.process(rows(KEYS))
    before = [each.value for each in read(cluster, "items", 0)]
    if checkpointed:
        query.take_checkpoint()
    query.restart()
    harness = harness_of(query, parallelism, batch_id=1)
    harness.process([])
    dealt = [element for elements in before for element in elements]
    expected = [dealt[index::parallelism] for index in range(parallelism)]
    assert [each.value for each in read(cluster, "items", 1)] == expected
    union = [each.value for each in read(cluster, "own", 1)]
    assert union == [[0, 1, index] for index in range(parallelism)]
    for subtask in range(parallelism):
        host, _, port = cluster.proxy_address().rpartition(":")
        with QueryableStateClient(host, int(port), timeout_s=20) as client:
            found = client.get_operator_state("job", "batches", subtask)
            assert found.get() == {0: "seen", 1: "seen"}


def test_an_uncommitted_batch_of_a_lost_server_is_run_again(cluster: LocalCluster) -> None:
    """Its seal is on disk, so the attempt is told that it replaces a snapshot."""
    query = cluster.start_query("job", durable=True)
    harness = harness_of(query, 2)
    harness.process(rows(KEYS))
    harness.run(rows(KEYS))
    cluster.kill_server(cluster.servers[1])
    cluster.add_server()
    harness.run(rows(KEYS[:1]))
    harness.commit()
    assert sorted(read(cluster, "items", 1).get()) == sorted([*KEYS, KEYS[0]])


def test_keyed_state_of_all_keys_is_paged_from_the_owner(cluster: LocalCluster) -> None:
    query = cluster.start_query("job")
    harness = BroadcastOperatorHarness(
        Alerts(),
        [queryable(MapStateDescriptor("limits", Types.STRING(), Types.DOUBLE()))],
        "sensor STRING, degrees DOUBLE",
        "name STRING, limit DOUBLE",
        key_by="sensor",
        output_type="sensor STRING, name STRING, last DOUBLE",
        owner=query,
        settings=RuntimeSettings(fetch_keys=2),
    )
    assert LIMITS.name == "limits"
    readings = [(key, 30.0) for key in KEYS]
    harness.process(readings, broadcast=[("hot", 25.0)])
    assert read(cluster, "limits", 0).get() == {"hot": 25.0}
    assert sorted(harness.process(readings)) == [(key, "hot", 30.0) for key in sorted(KEYS)]
    outputs = harness.process(readings, broadcast=[("reset", 0.0)])
    assert sorted(outputs) == [(key, "hot", None) for key in sorted(KEYS)]
