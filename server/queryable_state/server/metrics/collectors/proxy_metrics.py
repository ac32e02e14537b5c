"""Metrics of a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.metrics.families import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from queryable_state.server.query.proxy.proxy_router import ProxyRouter


class ProxyMetrics:
    """Collector of the routes and failures of one proxy."""

    def __init__(self, router: ProxyRouter) -> None:
        self._router = router

    def collect(self) -> Iterator[Metric]:
        """Yields the families."""
        counts = self._router.counts
        yield counter(
            "proxied_queries",
            "Queries by route: local (answered from the state of this process), relayed (one "
            "owner got them unchanged), split (sent in parts to several owners, or again).",
            ("route",),
            [
                (("local",), counts.local),
                (("relayed",), counts.relayed),
                (("split",), counts.split),
            ],
        )
        yield counter(
            "proxy_retries",
            "Times that an owner refused keys or was lost and the proxy tried again.",
            samples=[((), counts.retries)],
        )
        yield counter(
            "proxy_failures",
            "Times that keys failed in the proxy, by reason: no owner answered before the "
            "deadline, or the refusal needs the client.",
            ("reason",),
            [((reason,), number) for reason, number in counts.failed.copy().items()],
        )
        yield gauge(
            "owners_without_frames",
            "Owners that this proxy queries by unary gRPC calls, because their frame port is not "
            "reached.",
            samples=[((), self._router.owners_without_frames)],
        )
