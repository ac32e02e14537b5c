"""Metrics of user functions, from the subtasks that a state server owns."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client.core import SummaryMetricFamily

from queryable_state.internal.v1.user_metrics_pb2 import UserMetric
from queryable_state.server.metrics.families import PREFIX, counter, gauge
from queryable_state.server.metrics.state_names import JOB_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from queryable_state.server.state_server.stores.store_table import StoreTable

LABELS = (*JOB_LABELS, "operator", "subtask", "group", "metric")
Samples: TypeAlias = "dict[int, list[tuple[tuple[str, ...], UserMetric]]]"


class UserMetricsCollector:
    """Collector of the metrics that functions make by `get_metrics_group()`."""

    def __init__(self, table: StoreTable) -> None:
        self._table = table

    def collect(self) -> Iterator[Metric]:
        """Yields the families."""
        found = self._samples()
        yield gauge(
            "user_counter",
            "Counters of functions: increments less decrements of committed batches.",
            LABELS,
            [(labels, each.value) for labels, each in found[UserMetric.COUNTER]],
        )
        yield counter(
            "user_events",
            "Events of the meters of functions, in committed batches.",
            LABELS,
            [(labels, each.value) for labels, each in found[UserMetric.METER]],
        )
        yield gauge(
            "user_gauge",
            "Gauges of functions, as of the end of the newest committed batch.",
            LABELS,
            [(labels, each.value) for labels, each in found[UserMetric.GAUGE]],
        )
        distributions = found[UserMetric.DISTRIBUTION]
        summary = SummaryMetricFamily(
            f"{PREFIX}user_distribution",
            "Number and sum of the values of distributions of functions, in committed batches.",
            labels=LABELS,
        )
        for labels, each in distributions:
            summary.add_metric(labels, count_value=each.count, sum_value=each.value)
        yield summary
        with_values = [(labels, each) for labels, each in distributions if each.count]
        yield gauge(
            "user_distribution_min",
            "Least value of a distribution in the newest batch with values.",
            LABELS,
            [(labels, each.least) for labels, each in with_values],
        )
        yield gauge(
            "user_distribution_max",
            "Largest value of a distribution in the newest batch with values.",
            LABELS,
            [(labels, each.largest) for labels, each in with_values],
        )

    def _samples(self) -> Samples:
        """Labels and metrics by kind."""
        found: Samples = defaultdict(list)
        for subtask in self._table.subtasks_now():
            names = {each.job_name for each in tuple(subtask.states.values())}
            of_subtask = (
                subtask.id.query_id.hex(),
                next(iter(names), ""),
                subtask.id.operator_uid,
                str(subtask.id.subtask),
            )
            for metric in subtask.user_metrics.values():
                group = ".".join(metric.groups)
                found[metric.kind].append(((*of_subtask, group, metric.name), metric))
        return found
