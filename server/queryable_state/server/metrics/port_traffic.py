"""Traffic of one public port: queries, connections and bytes."""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING

from queryable_state.server.metrics.durations import QUERY_BOUNDS_S, Durations
from queryable_state.server.metrics.query_counts import QueryCounts

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2

SAMPLED = 32
"""One of so many queries over frames is timed: a clock call costs as much as all counters. A power
of 2."""


class PortTraffic:
    """Counters of one public port. The event loop adds; any thread reads."""

    def __init__(self) -> None:
        self.frame_queries = QueryCounts()
        """Queries that arrived as frames."""
        self.unary_queries = QueryCounts()
        """Queries that arrived as unary gRPC calls."""
        self.frame_durations = Durations(QUERY_BOUNDS_S)
        """Time from a frame to its whole answer, of one of `SAMPLED` queries."""
        self.unary_durations = Durations(QUERY_BOUNDS_S)
        """Time of a unary query in the router."""
        self.sampled_queries = 0
        """Queries over frames that were timed."""
        self.sampled_keys = 0
        """Keys of these queries."""
        self.refused: Counter[str] = Counter()
        """Queries over frames that were refused before they were routed, by reason."""
        self.accepted_connections = 0
        """Frame connections so far."""
        self.open_connections = 0
        """Frame connections now."""
        self.refused_connections: Counter[str] = Counter()
        """Frame connections that the server ended with a refusal, by reason."""
        self.received_bytes = 0
        """Bytes received over frame connections."""
        self.sent_bytes = 0
        """Bytes of answers over frame connections."""
        self.scans = 0
        """Scans so far."""
        self.open_scans = 0
        """Scans now."""

    def opened_connection(self) -> None:
        """Counts a frame connection that a client has opened."""
        self.accepted_connections += 1
        self.open_connections += 1

    def sampled(self, query: query_pb2.Query) -> float:
        """Counts a query over frames that is timed; returns the time of `perf_counter`."""
        self.sampled_queries += 1
        self.sampled_keys += len(query.keys)
        return perf_counter()

    def unary_answered(self, query: query_pb2.Query, begun_s: float) -> None:
        """Counts a unary query that began at `begun_s` of `perf_counter`."""
        self.unary_queries.add(query.state_id, query.read)
        self.unary_durations.add(perf_counter() - begun_s)
