"""Metrics of the public ports of a process."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from queryable_state.server.metrics.families import counter, gauge, histogram
from queryable_state.server.metrics.port_traffic import SAMPLED
from queryable_state.server.metrics.state_names import STATE_LABELS, StateLabels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from queryable_state.server.metrics.port_traffic import PortTraffic
    from queryable_state.server.metrics.state_names import FindState


class PortMetrics:
    """Collector of the traffic of the public ports, by name of the port."""

    def __init__(self, ports: Mapping[str, PortTraffic], find_state: FindState) -> None:
        """`find_state` returns the registration of a state that this process knows."""
        self._ports = ports
        self._find_state = find_state

    def collect(self) -> Iterator[Metric]:
        """Yields the families."""
        ports = [((name,), traffic) for name, traffic in self._ports.items()]
        yield counter(
            "queries",
            "Queries of keys by port, way (frame or unary), state and kind of read. The labels of "
            "the state are empty for ids that no known state has.",
            ("port", "way", *STATE_LABELS, "read"),
            self._queries().items(),
        )
        yield histogram(
            "query_duration_seconds",
            "Time from a query to its whole answer in this process, by port and way; of one in "
            f"{SAMPLED} queries over frames, and of all unary ones.",
            ("port", "way"),
            [
                sample
                for (name,), traffic in ports
                for sample in (
                    ((name, "frame"), traffic.frame_durations),
                    ((name, "unary"), traffic.unary_durations),
                )
            ],
        )
        yield counter(
            "sampled_queries",
            f"Queries over frames that were sampled, one in {SAMPLED}; with sampled_query_keys: "
            "how many look-ups clients put into one query.",
            ("port",),
            [(port, traffic.sampled_queries) for port, traffic in ports],
        )
        yield counter(
            "sampled_query_keys",
            "Keys of the sampled queries.",
            ("port",),
            [(port, traffic.sampled_keys) for port, traffic in ports],
        )
        yield counter(
            "query_refusals",
            "Queries over frames that were refused before they were routed, by reason: malformed, "
            "too large, or too many at once.",
            ("port", "reason"),
            [
                ((name, reason), number)
                for (name,), traffic in ports
                for reason, number in traffic.refused.copy().items()
            ],
        )
        yield gauge(
            "connections",
            "Open frame connections.",
            ("port",),
            [(port, traffic.open_connections) for port, traffic in ports],
        )
        yield counter(
            "connections_accepted",
            "Frame connections that were accepted.",
            ("port",),
            [(port, traffic.accepted_connections) for port, traffic in ports],
        )
        yield counter(
            "connections_refused",
            "Frame connections that the server ended with a refusal, by reason.",
            ("port", "reason"),
            [
                ((name, reason), number)
                for (name,), traffic in ports
                for reason, number in traffic.refused_connections.copy().items()
            ],
        )
        yield counter(
            "received_bytes",
            "Bytes that clients sent over frame connections.",
            ("port",),
            [(port, traffic.received_bytes) for port, traffic in ports],
        )
        yield counter(
            "sent_bytes",
            "Bytes of answers over frame connections.",
            ("port",),
            [(port, traffic.sent_bytes) for port, traffic in ports],
        )
        yield gauge(
            "scans", "Open scans.", ("port",), [(port, each.open_scans) for port, each in ports]
        )
        yield counter(
            "scans_started", "Scans.", ("port",), [(port, each.scans) for port, each in ports]
        )

    def _queries(self) -> Counter[tuple[str, ...]]:
        # States of the same name share a series, as all unknown ids do.
        found: Counter[tuple[str, ...]] = Counter()
        for port, traffic in self._ports.items():
            for way, counts in (
                ("frame", traffic.frame_queries),
                ("unary", traffic.unary_queries),
            ):
                for state_id, queries in counts.by_state():
                    labels = StateLabels.of(self._find_state(state_id) if state_id else None)
                    for read, number in queries.items():
                        found[port, way, *labels, read] += number
        return found
