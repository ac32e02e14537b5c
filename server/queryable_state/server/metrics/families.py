"""Metric families of the collectors, with the prefix that all names share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

    from queryable_state.server.metrics.durations import Durations

    Samples = Iterable[tuple[Sequence[str], float]]

PREFIX = "queryable_state_"


def counter(name: str, text: str, labels: Sequence[str] = (), samples: Samples = ()) -> Metric:
    """A counter `name`_total; each sample is the values of the labels, and the number."""
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def gauge(name: str, text: str, labels: Sequence[str] = (), samples: Samples = ()) -> Metric:
    """A gauge; each sample is the values of the labels, and the number."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def histogram(
    name: str,
    text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], Durations]],
) -> Metric:
    """A histogram of durations in seconds."""
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    for values, durations in samples:
        family.add_metric(values, durations.buckets(), durations.total_s)
    return family
