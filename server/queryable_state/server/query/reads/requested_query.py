"""Translation of unary requests into queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.wire.located_state import LocatedState

_WHOLE_READS = frozenset({query_pb2.POINT, query_pb2.PREFIX})


def scope_of(
    request: query_pb2.GetKvStateRequest
    | query_pb2.BatchGetKvStateRequest
    | query_pb2.ScanKvStateRequest,
) -> bytes:
    """Returns the encoded namespace that a request names; empty: none."""
    if request.WhichOneof("scope") == "window":
        return TimeWindow.of_proto(request.window).namespace
    return request.namespace


def query_of(
    request: query_pb2.GetKvStateRequest | query_pb2.BatchGetKvStateRequest,
    located: LocatedState,
    keys: Sequence[bytes],
    elements: Sequence[bytes],
) -> query_pb2.Query:
    """Returns the query for encoded keys and elements, with the options of the request.

    A read of the whole value is translated into the read that fits the kind of the state.
    """
    query = query_pb2.Query(
        state_id=located.state_id,
        placement_version=located.placement_version,
        consistency=request.consistency,
        namespace=scope_of(request),
        read=located.read_kind if request.read in _WHOLE_READS else request.read,
        keys=keys,
        allow_incomplete=request.allow_incomplete,
        min_version=request.min_version,
        max_staleness_ms=request.max_staleness_ms,
        timeline=request.timeline,
        elements=elements,
    )
    if isinstance(request, query_pb2.GetKvStateRequest):
        query.explain = request.explain
        if request.HasField("range"):
            query.ranges.append(request.range)
        if request.HasField("windows"):
            query.windows.append(request.windows)
        if request.key_json:
            _set_micros(query)
        return query
    query.ranges.extend(request.ranges)
    query.windows.extend(request.windows)
    if request.keys_json:
        _set_micros(query)
    if request.HasField("at_version"):
        query.at_version = request.at_version
    return query


def _set_micros(query: query_pb2.Query) -> None:
    """Lets a query whose answer becomes JSON find windows of microseconds, which JSON names."""
    if query.read != query_pb2.WINDOWS:
        return
    if not query.windows:
        query.windows.add()
    for wanted in query.windows:
        wanted.micros = True
