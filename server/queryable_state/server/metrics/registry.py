"""Registry of one process: its collectors, and their metrics as text."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, exposition

from queryable_state.server.process.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import Metric

CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
"""Content type of `MetricsRegistry.text`."""

_defects = RateLimitedLog(logging.getLogger(__name__))


class MetricsRegistry:
    """The metrics of one process, or of one server where a process has several.

    A collector is a function that reads counters and yields metric families; it is called at each
    scrape, on the thread of the scrape.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)

    def add(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Adds a collector."""
        self._registry.register(_Collector(collect))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format, of content type `CONTENT_TYPE`. Thread-safe."""
        return exposition.generate_latest(self._registry)


class _Collector:
    """One collector; its failure does not hide the metrics of the others."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        try:
            return list(self._collect())
        except Exception as problem:  # noqa: BLE001 - the other metrics are worth more now
            name = getattr(self._collect, "__qualname__", repr(self._collect))
            _defects.write(logging.ERROR, name, "the metrics of %s failed", name, problem=problem)
            return []
