"""Metrics of user functions come out at the owner, once for each committed batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.metrics.scraping import scraped

from queryable_state.internal.v1.user_metrics_pb2 import UserMetric
from queryable_state.server.state_server.stores.owned_subtask import MOST_METRICS, UserMetrics
from queryable_state.streaming import (
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.stateless.metrics import MetricGroup, TaskMetrics
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.chain_harness import ChainHarness
from queryable_state.streaming.testing.local_cluster import LocalCluster
from queryable_state.wire.errors import InvalidRequestError, JobError, LimitExceededError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from queryable_state.streaming import BatchKeys, BatchRuntimeContext, BatchState
    from queryable_state.streaming.functions import Context, RuntimeContext

SCHEMA = "sensor string, degrees double"
ROWS = [("a", 20.0), ("a", 30.0), ("b", -1.0)]


class Measuring(KeyedProcessFunction):
    """Has a metric of each kind."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("last", Types.DOUBLE())
        descriptor.set_queryable("last")
        self.last = runtime_context.get_state(descriptor)
        self.largest = 0.0
        group = runtime_context.get_metrics_group().add_group("readings")
        self.readings = group.counter("all")
        self.frosts = group.add_group("frost").meter("events")
        self.degrees = group.distribution("degrees")
        group.gauge("largest", lambda: self.largest)

    def process_element(self, value: Any, ctx: Context) -> None:
        self.readings.inc(2)
        self.readings.dec()
        self.degrees.update(value.degrees)
        self.largest = max(self.largest, value.degrees)
        if value.degrees < 0:
            self.frosts.mark_event()
        self.last.update(value.degrees)


def test_a_scrape_of_the_owner_has_the_metrics_of_committed_batches(tmp_path: Path) -> None:
    """An attempt that runs again counts once, and one that is not committed does not count."""
    with LocalCluster(tmp_path, lease_ms=60_000) as cluster:
        harness = KeyedOperatorHarness(
            Measuring(),
            SCHEMA,
            key_by="sensor",
            parallelism=1,
            owner=cluster.start_query("sensors"),
        )
        harness.process(ROWS)
        harness.run(ROWS)
        harness.run(ROWS)
        address = cluster.servers[0].addresses.metrics

        def scrape() -> Any:
            return cluster.run(scraped(address))

        labels = {"job_name": "sensors", "group": "readings", "subtask": "0"}
        found = scrape()
        assert found.value("queryable_state_user_counter", metric="all", **labels) == 3
        harness.commit()
        found = scrape()
        assert found.value("queryable_state_user_counter", metric="all", **labels) == 6
        assert found.value("queryable_state_user_events_total", group="readings.frost") == 2
        assert found.value("queryable_state_user_gauge", metric="largest", **labels) == 30
        distribution = "queryable_state_user_distribution"
        assert found.value(f"{distribution}_count", metric="degrees", **labels) == 6
        assert found.value(f"{distribution}_sum", metric="degrees", **labels) == 98
        assert found.value(f"{distribution}_min", metric="degrees", **labels) == -1
        assert found.value(f"{distribution}_max", metric="degrees", **labels) == 30


class CountingRows(KeyedBatchProcessFunction):
    """Counts the rows of a chunk."""

    def open(self, runtime_context: BatchRuntimeContext) -> None:
        self.rows = runtime_context.get_metrics_group().counter("rows")

    def process_batch(self, keys: BatchKeys, table: pa.Table, state: BatchState) -> None:
        self.rows.inc(table.num_rows)


def test_batch_functions_have_metrics_too(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, lease_ms=60_000) as cluster:
        harness = KeyedOperatorHarness(
            CountingRows(),
            SCHEMA,
            key_by="sensor",
            parallelism=1,
            owner=cluster.start_query("rows"),
        )
        harness.process(ROWS)
        found = cluster.run(scraped(cluster.servers[0].addresses.metrics))
        assert found.value("queryable_state_user_counter", group="", metric="rows") == 3


class Counted(MapFunction):
    """A function without state that asks for metrics."""

    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_metrics_group()

    def map(self, value: Any) -> Any:
        return value


def test_functions_without_state_are_told_that_their_metrics_come_out_nowhere() -> None:
    harness = ChainHarness(lambda stream: stream.map(Counted()), Types.LONG())
    with pytest.raises(InvalidRequestError, match=r"behind key_by\(...\)"):
        harness.process([1])


def test_names_are_checked() -> None:
    group = MetricGroup(TaskMetrics("counts"))
    counter = group.add_group("kafka", "topic").counter("rows")
    assert group.add_group("kafka").add_group("topic").counter("rows") is counter
    assert group.add_group("kafka.topic").counter("rows") is counter, "the same series"
    with pytest.raises(InvalidRequestError, match=r"'kafka.topic.rows' is a Counter and a Meter"):
        group.add_group("kafka", "topic").meter("rows")
    with pytest.raises(InvalidRequestError, match="0 characters"):
        group.counter("")
    with pytest.raises(InvalidRequestError, match="give it 1 to 200"):
        group.counter("x" * 201)
    with pytest.raises(InvalidRequestError, match="not negative"):
        group.meter("events").mark_event(-1)
    known = 2
    for number in range(MOST_METRICS - known):
        group.counter(f"of_{number}")
    with pytest.raises(LimitExceededError, match="do not name metrics after keys"):
        group.counter("one_too_many")


def test_a_gauge_that_raises_is_named() -> None:
    metrics = TaskMetrics("counts")
    MetricGroup(metrics).gauge("ratio", lambda: 1 / 0)
    with pytest.raises(JobError, match="gauge 'ratio' did not return a number: ZeroDivision"):
        list(metrics.reported())


def test_an_owner_keeps_a_bounded_number_of_metrics(caplog: pytest.LogCaptureFixture) -> None:
    metrics = UserMetrics("subtask 0/1 of operator 'counts'")
    metrics.add(UserMetric(name=f"of_{number}", value=1) for number in range(MOST_METRICS + 5))
    metrics.add([UserMetric(name="of_0", value=1)])
    assert len(metrics.values()) == MOST_METRICS
    assert metrics.values()[0].value == 2
    [line] = [record for record in caplog.records if "is left out" in record.message]
    assert f"metric of_{MOST_METRICS} is left out" in line.message


def test_a_distribution_keeps_the_extremes_of_its_newest_batch_with_values() -> None:
    metrics = UserMetrics("subtask 0/1 of operator 'counts'")
    kind = UserMetric.DISTRIBUTION
    metrics.add([UserMetric(name="ms", kind=kind, value=9, count=2, least=4, largest=5)])
    metrics.add([UserMetric(name="ms", kind=kind)])
    [known] = metrics.values()
    assert (known.value, known.count, known.least, known.largest) == (9, 2, 4, 5)
