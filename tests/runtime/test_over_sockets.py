"""Operators against real state servers and a real coordinator, and what clients see of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.config.limits import Limits
from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReducingStateDescriptor,
)
from queryable_state.streaming.runtime.aggregates.aggregate import (
    Aggregate,
    AggregateKind,
    FieldAggregate,
)
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.local_cluster import LocalCluster
from queryable_state.wire.errors import (
    AuthenticationError,
    LimitExceededError,
    Reason,
    RetryLaterError,
    SupersededError,
)
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queryable_state.streaming.functions import Context, RuntimeContext


@pytest.fixture(scope="module", params=["heap", "rocksdb"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), servers=2, backend=request.param) as made:
        yield made


class Mean(AggregateFunction[float, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class EveryKind(KeyedProcessFunction):
    """Keeps one element in a state of every kind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(
            named(ValueStateDescriptor("count", "bigint"), "counts")
        )
        self.seen = runtime_context.get_list_state(
            named(ListStateDescriptor("seen", "double"), "seen")
        )
        self.by_note = runtime_context.get_map_state(
            named(MapStateDescriptor("by_note", "string", "bigint"), "byNote")
        )
        self.most = runtime_context.get_reducing_state(
            named(ReducingStateDescriptor("most", max, "double"), "most")
        )
        self.mean = runtime_context.get_aggregating_state(
            named(AggregatingStateDescriptor("mean", Mean(), None, "double"), "means")
        )
        self.hidden = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("hidden", Mean(), Types.TUPLE(["double", "bigint"]))
        )

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[str, int, float]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.add(value.degrees)
        self.by_note.put(value.note, (self.by_note.get(value.note) or 0) + 1)
        self.most.add(value.degrees)
        self.mean.add(value.degrees)
        self.hidden.add(value.degrees)
        mean = self.hidden.get()
        assert mean is not None
        yield value.sensor, count, mean


def named(descriptor: Any, name: str) -> Any:
    descriptor.set_queryable(name)
    return descriptor


def every_kind(cluster: LocalCluster, name: str, **kwargs: Any) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        EveryKind(),
        "sensor STRING, degrees DOUBLE, note STRING",
        key_by="sensor",
        output_type="sensor STRING, count BIGINT, mean DOUBLE",
        owner=cluster.start_query(name),
        **kwargs,
    )


def client_of(cluster: LocalCluster) -> QueryableStateClient:
    host, _, port = cluster.proxy_address().rpartition(":")
    return QueryableStateClient(host, int(port))


def test_a_state_of_every_kind_is_kept_and_can_be_asked_for(cluster: LocalCluster) -> None:
    harness = every_kind(cluster, "kinds", parallelism=4, chunk_rows=2)
    rows = [(f"s{i % 5}", float(i), "odd" if i % 2 else "even") for i in range(20)]
    harness.process(rows)
    outputs = harness.process(rows)

    assert sorted(outputs)[-1][:2] == ("s4", 8)
    with client_of(cluster) as client:
        job = harness.backend.query_id.hex()
        assert client.get_kv_state(job, "counts", "s1").value() == 8
        assert list(client.get_kv_state(job, "seen", "s1").get()) == [1.0, 6.0, 11.0, 16.0] * 2
        assert dict(client.get_kv_state(job, "byNote", "s1").items()) == {"odd": 4, "even": 4}
        assert client.get_kv_state(job, "most", "s1").get() == 16.0
        assert client.get_kv_state(job, "means", "s1").get() == 8.5


def test_a_batch_run_twice_and_a_failed_attempt_count_once(cluster: LocalCluster) -> None:
    harness = every_kind(cluster, "twice")
    rows = [("a", 1.0, "x"), ("b", 2.0, "y")]
    harness.process(rows)
    partitions = harness.partitions(rows)
    for subtask, batches in enumerate(partitions):
        if batches:
            dying = harness.attempt(subtask, batches)
            next(dying)
            dying.close()
    first, second = harness.run(rows), harness.run(rows)
    harness.commit()

    assert first == second
    with client_of(cluster) as client:
        assert client.get_kv_state("twice", "counts", "a").value() == 2
        assert list(client.get_kv_state("twice", "seen", "b").get()) == [2.0, 2.0]


def test_an_overtaken_attempt_stops(cluster: LocalCluster) -> None:
    harness = every_kind(cluster, "overtaken", parallelism=1)
    batches = harness.partitions([("a", 1.0, "x")])[0]
    older = harness.attempt(0, batches)
    next(older)
    list(harness.attempt(0, batches))

    with pytest.raises(SupersededError) as refused:
        next(older)
    assert refused.value.reason == Reason.STALE_TOKEN


def test_sums_and_the_latest_value_sink_are_asked_for_by_key(cluster: LocalCluster) -> None:
    schema = "carrier STRING, number INT, delay BIGINT, note STRING"
    sums = KeyedOperatorHarness(
        Aggregate((FieldAggregate("delay", AggregateKind.SUM, Types.LONG()),), "sum", "delays"),
        schema,
        key_by=["carrier", "number"],
        output_type="carrier STRING, number INT, delay BIGINT",
        owner=cluster.start_query("sums"),
    )
    latest = KeyedOperatorHarness(
        LatestValueSink(named(ValueStateDescriptor("latest", schema), "latest")),
        schema,
        key_by="carrier",
        owner=cluster.start_query("latest"),
    )
    rows = [(f"c{i % 3}", i % 2, i, None if i % 5 else "five") for i in range(30)]
    for harness in (sums, latest):
        for _ in range(2):
            harness.process(rows)

    with client_of(cluster) as client:
        expected = 2 * sum(i for i in range(30) if i % 3 == 1 and i % 2 == 0)
        assert client.get_kv_state("sums", "delays", ("c1", 0)).get() == expected
        assert client.get_kv_state("latest", "latest", "c1").value() == ("c1", 0, 28, None)


def test_many_keys_and_long_values_pass_in_blocks(cluster: LocalCluster) -> None:
    """Five megabytes of changes are several blocks and more than one gRPC default message."""
    harness = KeyedOperatorHarness(
        LatestValueSink(named(ValueStateDescriptor("latest", "string"), "long")),
        "k INT, v STRING",
        key_by="k",
        value_column="v",
        owner=cluster.start_query("long"),
        parallelism=1,
    )
    harness.process((i, f"{i}-" + "x" * 1000) for i in range(5000))
    with client_of(cluster) as client:
        assert client.get_kv_state("long", "long", 4321).value() == "4321-" + "x" * 1000


def test_a_value_the_server_refuses_is_a_typed_error(cluster: LocalCluster) -> None:
    harness = KeyedOperatorHarness(
        LatestValueSink(ValueStateDescriptor("latest", "string")),
        "k INT, v STRING",
        key_by="k",
        value_column="v",
        owner=cluster.start_query("too long"),
        settings=RuntimeSettings(value_bytes=1 << 30),
    )
    with pytest.raises(LimitExceededError):
        harness.process([(1, "x" * (5 << 20))])


def test_a_wrong_secret_is_refused(cluster: LocalCluster) -> None:
    harness = every_kind(cluster, "secret")
    object.__setattr__(harness.spec, "secret", "guessed")
    with pytest.raises(AuthenticationError):
        harness.process([("a", 1.0, "x")])


def test_a_task_asks_for_a_server_that_cannot_be_reached_until_its_time_is_up(
    tmp_path: Path,
) -> None:
    with LocalCluster(tmp_path) as cluster:
        harness = every_kind(cluster, "gone", settings=RuntimeSettings(task_timeout_s=1.0))
        gone = cluster.servers[0]
        address = gone.addresses.backend
        cluster.stop_server(gone)
        cluster.servers.append(gone)
        try:
            with pytest.raises(RetryLaterError, match="could not begin within 1 s") as error:
                harness.process([("a", 1.0, "x")])
            assert address in str(error.value)
        finally:
            cluster.servers.remove(gone)


def test_a_task_waits_for_room_on_its_server_until_its_time_is_up(tmp_path: Path) -> None:
    """Each subtask alone would fit, both of a batch do not."""
    with LocalCluster(tmp_path, limits=Limits(max_staged_bytes=15_000)) as cluster:
        harness = KeyedOperatorHarness(
            LatestValueSink(ValueStateDescriptor("latest", "string")),
            "k INT, v STRING",
            key_by="k",
            value_column="v",
            owner=cluster.start_query("full"),
            settings=RuntimeSettings(task_timeout_s=0.5),
        )
        with pytest.raises(RetryLaterError, match=r"could not prepare within 0.5 s.*OVERLOADED"):
            harness.process((i, "x" * 1000) for i in range(20))
        harness.process([(1, "x")])


def test_a_new_owner_begins_and_a_lost_one_ends_the_attempt(tmp_path: Path) -> None:
    """An attempt is tied to the owner that began it; the next attempt finds the next owner."""
    with LocalCluster(tmp_path, servers=2) as cluster:
        harness = every_kind(
            cluster,
            "moves",
            parallelism=1,
            chunk_rows=1,
            settings=RuntimeSettings(task_timeout_s=15.0, output_rows=1),
        )
        rows = [("a", 1.0, "x"), ("b", 2.0, "x")]
        harness.process(rows)
        (batches,) = harness.partitions(rows)
        owner = next(
            server
            for server in cluster.servers
            if (job := server.table.job(harness.backend.query_id)) is not None and job.subtasks
        )
        attempt = harness.attempt(0, batches)
        next(attempt)
        cluster.stop_server(owner)

        with pytest.raises(RetryLaterError, match="was lost before"):
            list(attempt)

        outputs = harness.run(rows)
        harness.commit()
        # No durable copy: the new owner starts from nothing, and says so to clients.
        assert [(sensor, count) for sensor, count, _ in outputs] == [("a", 1), ("b", 1)]
