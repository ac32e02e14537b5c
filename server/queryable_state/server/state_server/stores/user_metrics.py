"""Metrics of the user functions of one subtask, summed over its committed batches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.internal.v1.user_metrics_pb2 import UserMetric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_log = logging.getLogger(__name__)

MOST_METRICS = 256
"""Metrics of one subtask. A function that names them after its data would make ever more."""


class UserMetrics:
    """Sums of counters, meters and distributions; the newest values of gauges.

    `add` is called on the event loop, `values` on any thread.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._values: dict[tuple[tuple[str, ...], str, int], UserMetric] = {}
        self._is_full = False

    def add(self, reported: Iterable[UserMetric]) -> None:
        """Adds the metrics of a committed batch."""
        for metric in reported:
            identity = (tuple(metric.groups), metric.name, metric.kind)
            known = self._values.get(identity)
            if known is None and len(self._values) >= MOST_METRICS:
                self._refuse(metric)
            else:
                self._values[identity] = metric if known is None else _sum(known, metric)

    def values(self) -> Sequence[UserMetric]:
        """The metrics. COUNTER, METER, DISTRIBUTION: since the server opened the subtask."""
        return list(self._values.values())

    def _refuse(self, metric: UserMetric) -> None:
        if not self._is_full:
            _log.warning(
                "%s: metric %s is left out, because its functions have more than %d metrics: do "
                "not name metrics after keys or batches",
                self._where,
                ".".join((*metric.groups, metric.name)),
                MOST_METRICS,
            )
        self._is_full = True


def _sum(known: UserMetric, newer: UserMetric) -> UserMetric:
    """A message of its own, because a scrape may be reading the known one."""
    metric = UserMetric()
    metric.CopyFrom(newer)
    if newer.kind == UserMetric.GAUGE:
        return metric
    metric.value += known.value
    if newer.kind == UserMetric.DISTRIBUTION:
        metric.count += known.count
        if not newer.count:
            metric.least, metric.largest = known.least, known.largest
    return metric
